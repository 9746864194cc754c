import { attributeStep, indexStep, keyStep, type Path } from "../path";
import type { ObjectValue, Value } from "../values/types";
import { Unknown } from "../values/unknown";
import type { Attribute, Attributes } from "./attributes";

/** The value as an object, or undefined when it is null, unknown or missing. */
export function asObject(value: Value | undefined): ObjectValue | undefined {
  return value === null || value === undefined || value instanceof Unknown ? undefined : (value as ObjectValue);
}

/** The objects inside a nested attribute's value, each with its path; none when it is null or unknown. */
export function nestedObjects(attribute: Attribute, value: Value, path: Path): [object: Value, path: Path][] {
  if (attribute.nested === undefined || value === null || value instanceof Unknown) return [];
  switch (attribute.nested.mode) {
    case "single":
      return [[value, path]];
    case "map":
      return [...(value as ReadonlyMap<string, Value>)].map(([key, item]) => [item, keyStep(path, key)]);
    default:
      return (value as readonly Value[]).map((item, i) => [item, indexStep(path, i)]);
  }
}

/**
 * Rebuilds a value attribute by attribute. `change` gets each attribute's value with its counterparts (of the other
 * objects given), nested ones after the attribute that holds them, and returns the value to put in its place. What is
 * inert inside is not visited.
 */
export function mapAttributes(
  attributes: Attributes,
  value: ObjectValue,
  counterparts: readonly (ObjectValue | undefined)[],
  path: Path,
  change: (attribute: Attribute, value: Value, counterparts: readonly Value[], path: Path) => Value,
): ObjectValue {
  const result: Record<string, Value> = Object.create(null);
  for (const [name, attribute] of Object.entries(attributes)) {
    const here = attributeStep(path, name);
    const others = counterparts.map((other) => other?.[name] ?? null);
    const changed = change(attribute, value[name] ?? null, others, here);
    result[name] = mapNested(attribute, changed, others, here, change);
  }
  return result;
}

function mapNested(
  attribute: Attribute,
  value: Value,
  counterparts: readonly Value[],
  path: Path,
  change: Parameters<typeof mapAttributes>[4],
): Value {
  const { nested } = attribute;
  if (nested === undefined || nested.inert || value === null || value instanceof Unknown) return value;
  const known = counterparts.map((other) => (other instanceof Unknown ? null : other));
  const inner = (item: Value, others: readonly Value[], at: Path): Value => {
    const object = asObject(item);
    return object === undefined ? item : mapAttributes(nested.attributes, object, others.map(asObject), at, change);
  };
  if (nested.mode === "single") return inner(value, known, path);
  if (nested.mode === "map") {
    const map = value as ReadonlyMap<string, Value>;
    const others = known as (ReadonlyMap<string, Value> | null)[];
    return new Map(
      [...map].map(([key, item]) => [
        key,
        inner(
          item,
          others.map((other) => other?.get(key) ?? null),
          keyStep(path, key),
        ),
      ]),
    );
  }
  const others = known as (readonly Value[] | null)[];
  return (value as readonly Value[]).map((item, i) =>
    inner(
      item,
      // Elements of a set have no name by which they could be found again: each is its own counterpart.
      others.map((other) => (nested.mode === "set" ? item : (other?.[i] ?? null))),
      indexStep(path, i),
    ),
  );
}
