import { decimalOf, type Numeric } from "./decimal";
import { Dynamic, type Type, typeToJson, type Value } from "./types";
import { Unknown } from "./unknown";

/**
 * A text that two values of a type share exactly when they are equal: a set's order does not count, a number's notation
 * does not count, unknowns are equal to unknowns of the same refinement.
 */
export function canonical(type: Type, value: Value): string {
  if (value === null || value === undefined) return "null";
  if (value instanceof Unknown) return `unknown${JSON.stringify(value.refinement ?? {})}`;
  switch (type.kind) {
    case "number":
    case "integer":
      // Most numbers are small whole ones, and need no decimal to be written.
      return Number.isSafeInteger(value) ? String(value) : decimalOf(value as Numeric).toString();
    case "list":
      return `[${(value as readonly Value[]).map((item) => canonical(type.element, item)).join()}]`;
    case "set": {
      const items = (value as readonly Value[]).map((item) => canonical(type.element, item));
      return `{${[...new Set(items)].sort().join()}}`;
    }
    case "tuple":
      return `[${type.elements.map((element, i) => canonical(element, (value as Value[])[i] ?? null)).join()}]`;
    case "map": {
      const entries = [...(value as ReadonlyMap<string, Value>)].map(
        ([key, item]) => `${JSON.stringify(key)}:${canonical(type.element, item)}`,
      );
      return `{${entries.sort().join()}}`;
    }
    case "object": {
      const object = value as Record<string, Value>;
      const entries = Object.keys(type.attributes).map(
        (name) => `${JSON.stringify(name)}:${canonical(type.attributes[name] as Type, object[name] ?? null)}`,
      );
      return `{${entries.sort().join()}}`;
    }
    case "dynamic": {
      const dynamic = value as Dynamic;
      return `${JSON.stringify(typeToJson(dynamic.type))}:${canonical(dynamic.type, dynamic.value)}`;
    }
    default:
      return JSON.stringify(value);
  }
}

/** Whether two values of a type mean the same (see {@link canonical}). */
export function valuesEqual(type: Type, a: Value, b: Value): boolean {
  return a === b || canonical(type, a) === canonical(type, b);
}

/** Whether every part of a value, at every depth, is known. */
export function isWhollyKnown(value: Value): boolean {
  if (value === null || typeof value !== "object") return true;
  if (value instanceof Unknown) return false;
  if (value instanceof Dynamic) return isWhollyKnown(value.value);
  if (Array.isArray(value)) return value.every(isWhollyKnown);
  if (value instanceof Map) return [...value.values()].every(isWhollyKnown);
  return Object.values(value).every((item) => isWhollyKnown(item as Value));
}
