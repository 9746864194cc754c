import type { Numeric } from "./decimal";
import type { Unknown } from "./unknown";

export interface StringType {
  readonly kind: "string";
}
export interface NumberType {
  readonly kind: "number";
}
/** A number on the wire that the provider only takes as a whole number a double holds exactly. */
export interface IntegerType {
  readonly kind: "integer";
}
export interface BoolType {
  readonly kind: "bool";
}
/** A value that carries its own type. */
export interface DynamicType {
  readonly kind: "dynamic";
}
export interface ListType<E extends Type = Type> {
  readonly kind: "list";
  readonly element: E;
}
export interface SetType<E extends Type = Type> {
  readonly kind: "set";
  readonly element: E;
}
export interface MapType<E extends Type = Type> {
  readonly kind: "map";
  readonly element: E;
}
export interface ObjectType<A extends TypeMap = TypeMap> {
  readonly kind: "object";
  readonly attributes: A;
  /** Attributes that may be left out where a value is converted to this type. */
  readonly optional?: readonly string[];
}
export interface TupleType<E extends readonly Type[] = readonly Type[]> {
  readonly kind: "tuple";
  readonly elements: E;
}
export interface TypeMap {
  readonly [name: string]: Type;
}

/** A type of Terraform's language. */
export type Type =
  | StringType
  | NumberType
  | IntegerType
  | BoolType
  | DynamicType
  | ListType
  | SetType
  | MapType
  | ObjectType
  | TupleType;

/** Makes types: `t.map(t.object({ limit: t.integer }))`. */
export const t = {
  string: { kind: "string" } as StringType,
  number: { kind: "number" } as NumberType,
  integer: { kind: "integer" } as IntegerType,
  bool: { kind: "bool" } as BoolType,
  dynamic: { kind: "dynamic" } as DynamicType,
  list: <E extends Type>(element: E): ListType<E> => ({ kind: "list", element }),
  set: <E extends Type>(element: E): SetType<E> => ({ kind: "set", element }),
  map: <E extends Type>(element: E): MapType<E> => ({ kind: "map", element }),
  object: <A extends TypeMap>(attributes: A, optional?: readonly (string & keyof A)[]): ObjectType<A> =>
    optional === undefined || optional.length === 0
      ? { kind: "object", attributes }
      : { kind: "object", attributes, optional },
  tuple: <const E extends readonly Type[]>(elements: E): TupleType<E> => ({ kind: "tuple", elements }),
};

/** A value whose type travels with it. A dynamic null or unknown of no known type is plain null or {@link Unknown}. */
export class Dynamic {
  constructor(
    readonly type: Type,
    readonly value: Value,
  ) {}
}

export interface ObjectValue {
  readonly [name: string]: Value;
}

/**
 * Any value of Terraform's language: null, {@link Unknown}, or known. Lists, sets and tuples are arrays (a set's order
 * means nothing), maps are Maps, objects are plain objects with every attribute of their type present.
 */
export type Value =
  | null
  | Unknown
  | string
  | boolean
  | Numeric
  | Dynamic
  | readonly Value[]
  | ReadonlyMap<string, Value>
  | ObjectValue;

/**
 * The TypeScript type of a known, non-null value of a Terraform type. `U` is added at every depth below: `Unknown`
 * where parts may be unknown, `never` where everything is known. A type that could be any gives {@link Value} (and ends
 * what would be an endless expansion).
 */
export type ValueOf<T extends Type, U = never> = [Type] extends [T] ? Value : KnownValueOf<T, U>;

type KnownValueOf<T extends Type, U> = T extends StringType
  ? string
  : T extends IntegerType
    ? number
    : T extends NumberType
      ? Numeric
      : T extends BoolType
        ? boolean
        : T extends DynamicType
          ? Dynamic
          : T extends ListType<infer E> | SetType<infer E>
            ? readonly (ValueOf<E, U> | U)[]
            : T extends MapType<infer E>
              ? ReadonlyMap<string, ValueOf<E, U> | U>
              : T extends ObjectType<infer A>
                ? { readonly [K in keyof A]: ValueOf<A[K], U> | null | U }
                : T extends TupleType<infer E>
                  ? { readonly [K in keyof E]: ValueOf<E[K], U> | null | U }
                  : never;

type TypeJson = string | readonly unknown[];

/** The JSON form of a type on Terraform's wire, such as `["map","string"]`. */
export function typeToJson(type: Type): TypeJson {
  switch (type.kind) {
    case "integer":
      return "number";
    case "list":
    case "set":
    case "map":
      return [type.kind, typeToJson(type.element)];
    case "object": {
      const attributes = Object.fromEntries(Object.entries(type.attributes).map(([k, v]) => [k, typeToJson(v)]));
      return type.optional === undefined ? ["object", attributes] : ["object", attributes, type.optional];
    }
    case "tuple":
      return ["tuple", type.elements.map(typeToJson)];
    default:
      return type.kind;
  }
}

/** Reads the JSON form of a type. @throws TypeError when it is none. */
export function typeFromJson(json: unknown): Type {
  if (json === "string" || json === "number" || json === "bool" || json === "dynamic") return { kind: json };
  if (Array.isArray(json)) {
    const [kind, inner, optional] = json as unknown[];
    if (kind === "list" || kind === "set" || kind === "map") return { kind, element: typeFromJson(inner) };
    if (kind === "tuple" && Array.isArray(inner)) return { kind, elements: inner.map(typeFromJson) };
    if (kind === "object" && typeof inner === "object" && inner !== null) {
      const attributes = Object.fromEntries(Object.entries(inner).map(([k, v]) => [k, typeFromJson(v)]));
      return optional === undefined ? { kind, attributes } : { kind, attributes, optional: optional as string[] };
    }
  }
  throw new TypeError(`not a type of Terraform's language: ${JSON.stringify(json)?.slice(0, 80)}`);
}
