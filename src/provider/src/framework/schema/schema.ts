import type { ObjectValue, Type, ValueOf } from "../values/types";
import type { Unknown } from "../values/unknown";
import {
  type Attribute,
  type Attributes,
  type Nested,
  type ObjectTypeOf,
  objectType,
  type Presence,
} from "./attributes";

/** The shape of a provider's, resource's or data source's configuration. Made by {@link defineSchema}. */
export interface Schema<A extends Attributes = Attributes> {
  /** Raised with each change that states written before cannot be read under. Default 0. */
  readonly version: number;
  /** Markdown, for the documentation. */
  readonly description: string;
  /** What to use instead. Absent = not deprecated. */
  readonly deprecated: string | undefined;
  readonly attributes: A;
  /** The whole as one object type. */
  readonly type: ObjectTypeOf<A>;
}

const NAME = /^[a-z_][a-z0-9_]*$/;

/** Declares a schema. @throws TypeError when it makes no sense: a fault of the program, found at its first start. */
export function defineSchema<A extends Attributes>(declaration: {
  readonly version?: number;
  readonly description: string;
  readonly deprecated?: string;
  readonly attributes: A;
}): Schema<A> {
  check(declaration.attributes, false);
  return {
    version: declaration.version ?? 0,
    description: declaration.description,
    deprecated: declaration.deprecated,
    attributes: declaration.attributes,
    type: objectType(declaration.attributes),
  };
}

function check(attributes: Attributes, insideSet: boolean): void {
  for (const [name, { nested, presence }] of Object.entries(attributes)) {
    if (!NAME.test(name)) throw new TypeError(`"${name}" is no attribute name: lower-case letters, digits, "_"`);
    if (insideSet && (presence === "computed" || presence === "optional-computed")) {
      throw new TypeError(`"${name}" is computed inside a set, whose elements have no name to be found by`);
    }
    if (nested !== undefined) check(nested.attributes, insideSet || nested.mode === "set");
  }
}

/**
 * How much of a value is certain:
 * - `plan`: configuration and proposals, where anything may be unknown;
 * - `apply`: a plan being applied, where only what the provider computes may be unknown;
 * - `state`: everything known.
 */
export type Certainty = "plan" | "apply" | "state";

type UnknownIn<C extends Certainty, P extends Presence> = C extends "plan"
  ? Unknown
  : C extends "apply"
    ? P extends "computed" | "optional-computed"
      ? Unknown
      : never
    : never;

/** In a configuration a defaulted attribute may be missing; in plans and states it never is. */
type NullIn<P extends Presence, Raw extends boolean> = P extends "required"
  ? never
  : P extends "default"
    ? Raw extends true
      ? null
      : never
    : null;

type Item<N extends Nested, C extends Certainty, Raw extends boolean, U> = N["mode"] extends "single"
  ? ObjectOf<N["attributes"], C, Raw>
  : N["mode"] extends "map"
    ? ReadonlyMap<string, ObjectOf<N["attributes"], C, Raw> | U>
    : readonly (ObjectOf<N["attributes"], C, Raw> | U)[];

type AttributeValue<A extends Attribute, C extends Certainty, Raw extends boolean> =
  | (A["nested"] extends Nested
      ? Item<A["nested"], C, Raw, C extends "plan" ? Unknown : never>
      : A["type"] extends Type
        ? ValueOf<A["type"], C extends "plan" ? Unknown : never>
        : never)
  | UnknownIn<C, A["presence"]>
  | NullIn<A["presence"], Raw>;

/** The object that attributes make; of attributes that are not known one by one, any object. */
export type ObjectOf<A extends Attributes, C extends Certainty, Raw extends boolean = false> = string extends keyof A
  ? ObjectValue
  : { readonly [K in keyof A]: AttributeValue<A[K], C, Raw> };

/** A configuration as it stands in the files, anything possibly unknown, what is left out null. */
export type ConfigOf<S extends Schema> = ObjectOf<S["attributes"], "plan", true>;
/** A configuration during apply: wholly known. */
export type KnownConfigOf<S extends Schema> = ObjectOf<S["attributes"], "state", true>;
/** A proposed or planned state, defaults filled in, anything possibly unknown. */
export type PlanOf<S extends Schema> = ObjectOf<S["attributes"], "plan">;
/** A planned state being applied: only what the provider computes may be unknown. */
export type PlannedOf<S extends Schema> = ObjectOf<S["attributes"], "apply">;
/** A state: wholly known. */
export type StateOf<S extends Schema> = ObjectOf<S["attributes"], "state">;
