import type { Awaitable, Context } from "./context";
import type { DataSource } from "./data-source";
import type { Diagnostic } from "./diagnostics";
import type { ProviderFunction } from "./function";
import type { Resource } from "./resource";
import type { ConfigOf, Schema } from "./schema/schema";

/** A provider. `C` is what its resources work with: a client of the outside. */
export interface ProviderDeclaration<C, S extends Schema> {
  readonly schema: S;
  readonly resources: readonly Resource<C>[];
  readonly dataSources: readonly DataSource<C>[];
  readonly functions: readonly ProviderFunction[];

  /** Checks across attributes; called when each by itself is right. */
  validate?(context: Context & { readonly config: ConfigOf<S> }): Awaitable<void>;

  /**
   * Makes the client. The configuration may still be unknown in parts while a plan is made: the client then says so when
   * it is used, since the plan must not fail.
   */
  configure(
    context: Context & {
      readonly config: ConfigOf<S>;
      /** Such as `1.11.4`. */
      readonly terraformVersion: string;
      /** From now on this text is struck from every message. Sensitive attributes are by themselves. */
      redact(secret: string): void;
    },
  ): Awaitable<C>;

  /** What to tell the person about an error that a function threw; undefined when it is none that is known. */
  explain?(error: unknown): Diagnostic | undefined;

  /** Releases a client's connections, at the end or when the provider is configured anew. */
  close?(client: C): Awaitable<void>;
}

/** Provider of any schema: its values are objects of no particular type. */
export interface Provider<C> extends ProviderDeclaration<C, Schema> {}

/** Infers a provider's types from its schema. */
export function defineProvider<C, S extends Schema>(declaration: ProviderDeclaration<C, S>): Provider<C> {
  // It is only ever called with values of its own schema: the one place where its types are forgotten.
  return declaration as unknown as Provider<C>;
}
