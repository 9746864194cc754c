import type { Diagnostic } from "../diagnostics";
import { attributeStep, formatPath, indexStep, keyStep, type Path } from "../path";
import { Decimal } from "../values/decimal";
import { Dynamic, type Type, type Value } from "../values/types";
import { Unknown } from "../values/unknown";
import type { Attribute, Attributes } from "./attributes";
import type { Schema } from "./schema";
import type { Validator } from "./validators";
import { asObject, nestedObjects } from "./walk";

/** Checks a configuration against its schema. What is not yet known is not yet checked. */
export function validateConfig(schema: Schema, config: Value): Diagnostic[] {
  const found: Diagnostic[] = [];
  const object = asObject(config);
  if (object !== undefined) validateAttributes(schema.attributes, object, [], false, found);
  return found;
}

function validateAttributes(
  attributes: Attributes,
  object: Readonly<Record<string, Value>>,
  path: Path,
  sensitiveParent: boolean,
  found: Diagnostic[],
): void {
  for (const [name, attribute] of Object.entries(attributes)) {
    const here = attributeStep(path, name);
    const value = object[name] ?? null;
    const sensitive = sensitiveParent || attribute.sensitive;
    if (value === null) {
      if (attribute.presence === "required") {
        const accepts = attribute.validators[0] === undefined ? "" : `; accepted is ${attribute.validators[0].accepts}`;
        found.push(invalid(here, `Got null, but ${name} is required${accepts}.`));
      }
      continue;
    }
    if (attribute.deprecated !== undefined) {
      found.push({
        severity: "warning",
        summary: `Deprecated attribute: ${formatPath(here)}`,
        detail: attribute.deprecated,
        path: here,
      });
    }
    if (value instanceof Unknown) continue;
    const before = found.length;
    validateType(attribute.type, value, here, sensitive, found, attribute.validators[0]?.accepts);
    if (found.length > before && found.slice(before).some((d) => d.severity === "error")) continue;
    validateValue(attribute, value, here, sensitive, found);
    for (const [item, at] of nestedObjects(attribute, value, here)) {
      const inner = asObject(item);
      if (inner !== undefined) validateAttributes(attribute.nested!.attributes, inner, at, sensitive, found);
    }
  }
}

function validateValue(attribute: Attribute, value: Value, path: Path, sensitive: boolean, found: Diagnostic[]): void {
  for (const validator of attribute.validators as readonly Validator<Value>[]) {
    if (validator.test(value)) continue;
    found.push(invalid(path, `Got ${show(value, sensitive)}; accepted is ${validator.accepts}.`));
  }
}

/** What the wire's types do not say: whole numbers, and no null elements in collections. Nested ones come by themselves. */
function validateType(
  type: Type,
  value: Value,
  path: Path,
  sensitive: boolean,
  found: Diagnostic[],
  accepts = "a whole number",
): void {
  if (value === null || value instanceof Unknown) return;
  const element = (elementType: Type, item: Value, at: Path) => {
    if (item === null) found.push(invalid(at, "Got null, which a collection cannot hold; leave the element out."));
    else if (elementType.kind !== "object") validateType(elementType, item, at, sensitive, found);
  };
  switch (type.kind) {
    case "integer":
      if (!Number.isSafeInteger(value)) {
        found.push(invalid(path, `Got ${show(value, sensitive)}; accepted is ${accepts}.`));
      }
      break;
    case "list":
    case "set":
      for (const [i, item] of (value as readonly Value[]).entries()) element(type.element, item, indexStep(path, i));
      break;
    case "map":
      for (const [key, item] of value as ReadonlyMap<string, Value>) element(type.element, item, keyStep(path, key));
      break;
    default:
  }
}

function invalid(path: Path, detail: string): Diagnostic {
  return { severity: "error", summary: `Invalid value for ${formatPath(path)}`, detail, path };
}

/** A value for an error message, shortened; never a sensitive one. */
function show(value: Value, sensitive: boolean): string {
  if (sensitive) return "a sensitive value";
  if (typeof value === "string") {
    return value.length > 60 ? `text of ${Buffer.byteLength(value)} bytes` : JSON.stringify(value);
  }
  if (value instanceof Map) return `a map of ${value.size} elements`;
  if (Array.isArray(value)) return `a list of ${value.length} elements`;
  if (value instanceof Dynamic) return "a value of another kind";
  if (typeof value === "object" && !(value instanceof Decimal)) return "an object";
  const text = String(value);
  return text.length > 60 ? `a number of ${text.length} characters` : text;
}
