import type { ListType, MapType, ObjectType, SetType, Type, Value, ValueOf } from "../values/types";
import { type BoolType, type IntegerType, type NumberType, type StringType, t } from "../values/types";
import type { Unknown } from "../values/unknown";
import type { PlanModifier } from "./plan-modifiers";
import type { Validator } from "./validators";

/**
 * Who sets an attribute: the configuration must (`required`), may (`optional`), may and else a fixed value stands
 * (`default`), may and else the provider does (`optional-computed`), or only the provider does (`computed`).
 */
export type Presence = "required" | "optional" | "default" | "optional-computed" | "computed";

/** How attributes inside an attribute repeat. */
export type Nesting = "single" | "list" | "set" | "map";

export interface Attributes {
  readonly [name: string]: Attribute;
}

export interface Nested<M extends Nesting = Nesting, A extends Attributes = Attributes> {
  readonly mode: M;
  readonly attributes: A;
  /** Whether a plan takes what is inside as it is: no defaults, nothing computed, no plan modifiers, at any depth. */
  readonly inert: boolean;
}

/** One attribute of a schema. Made by {@link attribute}. */
export interface Attribute<
  T extends Type = Type,
  N extends Nested | undefined = Nested | undefined,
  P extends Presence = Presence,
> {
  /** The whole type, nested attributes included. */
  readonly type: T;
  readonly nested: N;
  readonly presence: P;
  readonly description: string;
  readonly sensitive: boolean;
  /** Never kept in a plan or state; needs Terraform 1.11. */
  readonly writeOnly: boolean;
  /** What to use instead. Absent = not deprecated. */
  readonly deprecated: string | undefined;
  /** The value that stands where the configuration has none. Absent = none. */
  readonly defaultValue: Value | undefined;
  readonly validators: readonly Validator<unknown>[];
  readonly planModifiers: readonly PlanModifier[];
}

/** What an attribute may be declared with. Exactly one of `required`, `optional`, `computed`, `default` fits most. */
export interface AttributeOptions<V> {
  /** The configuration must set it. */
  readonly required?: true;
  /** The configuration may set it. */
  readonly optional?: true;
  /** The provider sets it (where the configuration may not or does not). */
  readonly computed?: true;
  /** Stands where the configuration has nothing; the attribute is then optional and computed. */
  readonly default?: V;
  /** Markdown, for the documentation: meaning, unit, default. */
  readonly description: string;
  /** Never shown by Terraform, nor in this provider's messages. Default false. */
  readonly sensitive?: true;
  readonly writeOnly?: true;
  /** Deprecated: says what to use instead. */
  readonly deprecated?: string;
  readonly validators?: readonly Validator<V>[];
  readonly planModifiers?: readonly PlanModifier[];
}

export type PresenceOf<O> = O extends { required: true }
  ? "required"
  : O extends { default: string | number | boolean | object }
    ? "default"
    : O extends { computed: true }
      ? O extends { optional: true }
        ? "optional-computed"
        : "computed"
      : "optional";

/** The object type that nested attributes make. */
export type ObjectTypeOf<A extends Attributes> = ObjectType<{ readonly [K in keyof A]: A[K]["type"] }>;

type Deep<T extends Type> = ValueOf<T, Unknown>;

/** Makes attributes: `attribute.string({ required: true, description: "..." })`. */
export const attribute = {
  string: <const O extends AttributeOptions<string>>(options: O): Attribute<StringType, undefined, PresenceOf<O>> =>
    make(t.string, undefined, options),
  bool: <const O extends AttributeOptions<boolean>>(options: O): Attribute<BoolType, undefined, PresenceOf<O>> =>
    make(t.bool, undefined, options),
  /** A number of any size and scale. */
  number: <const O extends AttributeOptions<Deep<NumberType>>>(
    options: O,
  ): Attribute<NumberType, undefined, PresenceOf<O>> => make(t.number, undefined, options),
  /** A whole number that JavaScript holds exactly (up to 2^53 - 1); a fraction is refused at validation. */
  integer: <const O extends AttributeOptions<number>>(options: O): Attribute<IntegerType, undefined, PresenceOf<O>> =>
    make(t.integer, undefined, options),
  /** An attribute of any type: `attribute.of(t.list(t.string), {...})`. */
  of: <T extends Type, const O extends AttributeOptions<Deep<T>>>(
    type: T,
    options: O,
  ): Attribute<T, undefined, PresenceOf<O>> => make(type, undefined, options),

  /** One object of attributes. */
  single: <A extends Attributes, const O extends AttributeOptions<Deep<ObjectTypeOf<A>>>>(
    attributes: A,
    options: O,
  ): Attribute<ObjectTypeOf<A>, Nested<"single", A>, PresenceOf<O>> =>
    make(objectType(attributes), nest("single", attributes), options),
  /** A list of objects of attributes. */
  list: <A extends Attributes, const O extends AttributeOptions<Deep<ListType<ObjectTypeOf<A>>>>>(
    attributes: A,
    options: O,
  ): Attribute<ListType<ObjectTypeOf<A>>, Nested<"list", A>, PresenceOf<O>> =>
    make(t.list(objectType(attributes)), nest("list", attributes), options),
  /** A set of objects of attributes. Those may not be computed: elements of a set have no name to be found by. */
  set: <A extends Attributes, const O extends AttributeOptions<Deep<SetType<ObjectTypeOf<A>>>>>(
    attributes: A,
    options: O,
  ): Attribute<SetType<ObjectTypeOf<A>>, Nested<"set", A>, PresenceOf<O>> =>
    make(t.set(objectType(attributes)), nest("set", attributes), options),
  /** A map of objects of attributes. */
  map: <A extends Attributes, const O extends AttributeOptions<Deep<MapType<ObjectTypeOf<A>>>>>(
    attributes: A,
    options: O,
  ): Attribute<MapType<ObjectTypeOf<A>>, Nested<"map", A>, PresenceOf<O>> =>
    make(t.map(objectType(attributes)), nest("map", attributes), options),
};

/** The object type of a list of attributes. */
export function objectType<A extends Attributes>(attributes: A): ObjectTypeOf<A> {
  const types = Object.fromEntries(Object.entries(attributes).map(([name, { type }]) => [name, type]));
  return t.object(types) as ObjectTypeOf<A>;
}

function nest<const M extends Nesting, A extends Attributes>(mode: M, attributes: A): Nested<M, A> {
  const inert = Object.values(attributes).every(
    ({ nested, presence, writeOnly, planModifiers }) =>
      (presence === "required" || presence === "optional") &&
      !writeOnly &&
      planModifiers.length === 0 &&
      (nested?.inert ?? true),
  );
  return { mode, attributes, inert };
}

function make<T extends Type, N extends Nested | undefined, P extends Presence>(
  type: T,
  nested: N,
  options: AttributeOptions<unknown>,
): Attribute<T, N, P> {
  return {
    type,
    nested,
    presence: presenceOf(options) as P,
    description: options.description,
    sensitive: options.sensitive ?? false,
    writeOnly: options.writeOnly ?? false,
    deprecated: options.deprecated,
    defaultValue: options.default as Value | undefined,
    validators: options.validators ?? [],
    planModifiers: options.planModifiers ?? [],
  };
}

function presenceOf(options: AttributeOptions<unknown>): Presence {
  const { required, optional, computed } = options;
  const hasDefault = options.default !== undefined;
  if (required && (optional || computed || hasDefault)) {
    throw new TypeError(
      `an attribute is either required, or optional, computed or defaulted: "${options.description}"`,
    );
  }
  if (options.writeOnly && (computed || hasDefault)) {
    throw new TypeError(`a write-only attribute is only required or optional: "${options.description}"`);
  }
  if (required) return "required";
  if (hasDefault) return "default";
  if (computed) return optional ? "optional-computed" : "computed";
  if (optional) return "optional";
  throw new TypeError(`an attribute is required, optional, computed or has a default: "${options.description}"`);
}
