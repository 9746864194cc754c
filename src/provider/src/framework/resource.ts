import type { Awaitable, ClientContext, Context, PrivateState } from "./context";
import type { Path } from "./path";
import type { ConfigOf, KnownConfigOf, PlannedOf, PlanOf, Schema, StateOf } from "./schema/schema";
import type { BoolType, IntegerType, ListType, NumberType, ObjectValue, StringType, Type } from "./values/types";

export interface IdentityAttribute {
  readonly type: StringType | NumberType | IntegerType | BoolType | ListType;
  readonly description: string;
  /** Whether an import by identity must give it. Default true. */
  readonly requiredForImport?: boolean;
}

/** The attributes by which Terraform (1.12 and newer) tells which remote object a resource is. They never change. */
export interface IdentitySchema {
  /** Default 0. */
  readonly version?: number;
  readonly attributes: { readonly [name: string]: IdentityAttribute };
}

/** What to import: the id of `terraform import`, or an identity. */
export type ImportTarget = { readonly id: string } | { readonly identity: ObjectValue };

/** Turns a state of an older schema version into one of the current version. */
export interface StateUpgrader {
  /** The type of states of that version. */
  readonly priorType: Type;
  upgrade(context: Context & { readonly state: ObjectValue }): Awaitable<ObjectValue>;
}

/** A state of another resource type, to be moved here by a `moved` block. */
export interface MoveSource {
  readonly providerAddress: string;
  readonly typeName: string;
  readonly schemaVersion: number;
  /** The state's JSON. */
  readonly json: string;
}

/**
 * A kind of thing that Terraform manages. A function fails by adding an error to the context's diagnostics or by
 * throwing; what it returns in spite of an error is kept as the state that really holds.
 */
export interface ResourceDeclaration<C, S extends Schema> {
  /** With the provider's prefix: `workhorse_schema`. */
  readonly typeName: string;
  readonly schema: S;
  /** Absent = the resource has none. */
  readonly identity?: IdentitySchema;
  /** The identity of a state; wanted where {@link identity} is. */
  identityOf?(state: StateOf<S>): ObjectValue;

  /** Checks across attributes; called when each by itself is right. */
  validate?(context: Context & { readonly config: ConfigOf<S> }): Awaitable<void>;

  /** What there is now; null when it is gone. */
  read(
    context: ClientContext<C> & { readonly state: StateOf<S>; readonly privateState: PrivateState },
  ): Awaitable<StateOf<S> | null>;

  /**
   * Refines a plan for create or update. `planned` has the defaults, and unknown where the provider computes; returns it
   * changed. Without it the plan stands. What is planned as known must come true at apply.
   */
  plan?(
    context: ClientContext<C> & {
      readonly config: ConfigOf<S>;
      /** Null = create. */
      readonly prior: StateOf<S> | null;
      readonly planned: PlanOf<S>;
      readonly privateState: PrivateState;
      /** The change of this attribute replaces the resource. */
      replace(path: Path): void;
    },
  ): Awaitable<PlanOf<S>>;

  /** Called when a destroy is planned: for warnings and refusals. */
  planDelete?(context: ClientContext<C> & { readonly prior: StateOf<S> }): Awaitable<void>;

  create(
    context: ClientContext<C> & {
      readonly config: KnownConfigOf<S>;
      readonly planned: PlannedOf<S>;
      readonly privateState: PrivateState;
    },
  ): Awaitable<StateOf<S> | null>;

  update(
    context: ClientContext<C> & {
      readonly config: KnownConfigOf<S>;
      readonly prior: StateOf<S>;
      readonly planned: PlannedOf<S>;
      readonly privateState: PrivateState;
    },
  ): Awaitable<StateOf<S>>;

  delete(context: ClientContext<C> & { readonly prior: StateOf<S> }): Awaitable<void>;

  /** The state of something that exists, as much of it as {@link read} needs. Absent = it cannot be imported. */
  import?(context: ClientContext<C> & { readonly target: ImportTarget }): Awaitable<StateOf<S> | null>;

  /** By the schema version they start from. Each leads to the current version. */
  readonly upgraders?: { readonly [version: number]: StateUpgrader };

  /** Takes over a state of another resource type; undefined when it does not know that type. */
  move?(context: Context & { readonly source: MoveSource }): Awaitable<StateOf<S> | undefined>;
}

/** Resource of any schema: its values are objects of no particular type. */
export interface Resource<C> extends ResourceDeclaration<C, Schema> {}

/** Infers a resource's types from its schema. */
export function defineResource<C, S extends Schema>(declaration: ResourceDeclaration<C, S>): Resource<C> {
  // It is only ever called with values of its own schema: the one place where its types are forgotten.
  return declaration as unknown as Resource<C>;
}
