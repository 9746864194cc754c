import type { Awaitable, ClientContext, Context } from "./context";
import type { ConfigOf, KnownConfigOf, Schema, StateOf } from "./schema/schema";

/** A kind of thing that Terraform only reads. */
export interface DataSourceDeclaration<C, S extends Schema> {
  /** With the provider's prefix. */
  readonly typeName: string;
  readonly schema: S;
  /** Checks across attributes; called when each by itself is right. */
  validate?(context: Context & { readonly config: ConfigOf<S> }): Awaitable<void>;
  read(context: ClientContext<C> & { readonly config: KnownConfigOf<S> }): Awaitable<StateOf<S>>;
}

/** DataSource of any schema: its values are objects of no particular type. */
export interface DataSource<C> extends DataSourceDeclaration<C, Schema> {}

/** Infers a data source's types from its schema. */
export function defineDataSource<C, S extends Schema>(declaration: DataSourceDeclaration<C, S>): DataSource<C> {
  // It is only ever called with values of its own schema: the one place where its types are forgotten.
  return declaration as unknown as DataSource<C>;
}
