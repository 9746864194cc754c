import { attributeStep, indexStep, keyStep, type Path } from "../path";
import { numeric } from "../values/decimal";
import { Dynamic, type Type, typeFromJson, type Value } from "../values/types";
import { CodecError, describe } from "./errors";

/** A string, kept as it is, or a number, to be quoted. */
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * Reads a state file's JSON of the given type. Numbers keep all their digits. Attributes that the type has and the JSON
 * lacks are null; attributes that only the JSON has are ignored (a newer provider may have written them).
 * @throws CodecError when the text holds something else.
 */
export function decodeJson(text: string, type: Type): Value {
  let raw: unknown;
  try {
    // JSON.parse rounds numbers to doubles, so they are read as strings of digits; the type tells the two apart.
    raw = JSON.parse(text.replace(STRING_OR_NUMBER, (token) => (token.startsWith('"') ? token : `"${token}"`)));
  } catch {
    throw new CodecError([], "malformed JSON");
  }
  return fromRaw(raw, type, []);
}

function fromRaw(raw: unknown, type: Type, path: Path): Value {
  if (raw === null || raw === undefined) return null;
  switch (type.kind) {
    case "string":
      if (typeof raw === "string") return raw;
      if (typeof raw === "boolean") return String(raw);
      break;
    case "bool":
      if (typeof raw === "boolean") return raw;
      if (raw === "true" || raw === "false") return raw === "true";
      break;
    case "number":
    case "integer":
      if (typeof raw === "string") {
        try {
          return numeric(raw);
        } catch (error) {
          throw new CodecError(path, (error as Error).message);
        }
      }
      break;
    case "list":
    case "set":
      if (Array.isArray(raw)) return raw.map((item, i) => fromRaw(item, type.element, indexStep(path, i)));
      break;
    case "tuple":
      if (Array.isArray(raw) && raw.length === type.elements.length) {
        return type.elements.map((element, i) => fromRaw(raw[i], element, indexStep(path, i)));
      }
      break;
    case "map":
      if (isRecord(raw)) {
        return new Map(Object.keys(raw).map((key) => [key, fromRaw(raw[key], type.element, keyStep(path, key))]));
      }
      break;
    case "object":
      if (isRecord(raw)) {
        const object: Record<string, Value> = Object.create(null);
        for (const [name, attribute] of Object.entries(type.attributes)) {
          const item = Object.hasOwn(raw, name) ? raw[name] : null;
          object[name] = fromRaw(item, attribute, attributeStep(path, name));
        }
        return object;
      }
      break;
    case "dynamic":
      if (isRecord(raw) && "type" in raw && "value" in raw) {
        const inner = typeFromJson(raw.type);
        return new Dynamic(inner, fromRaw(raw.value, inner, path));
      }
      break;
  }
  throw new CodecError(path, `expected ${type.kind}, got ${describe(raw)}`);
}

function isRecord(raw: unknown): raw is Record<string, unknown> {
  return typeof raw === "object" && raw !== null && !Array.isArray(raw);
}
