import { Decoder, Encoder, ExtData, ExtensionCodec } from "@msgpack/msgpack";
import { attributeStep, indexStep, keyStep, type Path } from "../path";
import { Decimal, decimalOf, type Numeric, numeric } from "../values/decimal";
import { Dynamic, type ObjectValue, type Type, typeFromJson, typeToJson, type Value } from "../values/types";
import { type Refinement, Unknown, unknown } from "../values/unknown";
import { CodecError, describe } from "./errors";

const UNKNOWN_EXT = 0;
const REFINED_UNKNOWN_EXT = 12;
const INT64_MIN = -(2n ** 63n);
const UINT64_MAX = 2n ** 64n - 1n;

/** Keys of the map inside a refined unknown. */
const REFINEMENT = { nullness: 1, stringPrefix: 2, numberMin: 3, numberMax: 4, lengthMin: 5, lengthMax: 6 } as const;

/**
 * Every decoded map key is prefixed, so that no key (`__proto__`, `10`) means anything special to JavaScript objects;
 * the library itself refuses some of them.
 */
const KEY_PREFIX = ".";

const extensions = new ExtensionCodec();
extensions.register({ type: UNKNOWN_EXT, encode: () => null, decode: () => unknown });
extensions.register({ type: REFINED_UNKNOWN_EXT, encode: () => null, decode: decodeRefinement });

const keyDecoder = {
  canBeCached: () => true,
  decode: (bytes: Uint8Array, offset: number, length: number) =>
    KEY_PREFIX + Buffer.from(bytes.buffer, bytes.byteOffset + offset, length).toString("utf8"),
};

/** Decoders and encoders keep state while they work, so each call makes its own. */
const newDecoder = () => new Decoder({ useBigInt64: true, extensionCodec: extensions, keyDecoder });
const newEncoder = () => new Encoder({ useBigInt64: true, maxDepth: 1000 });

/** Reads a value of the given type. @throws CodecError when the bytes hold something else. */
export function decodeMsgpack(bytes: Uint8Array, type: Type): Value {
  let raw: unknown;
  try {
    raw = newDecoder().decode(bytes);
  } catch (error) {
    throw new CodecError([], `malformed msgpack (${(error as Error).name})`);
  }
  return fromRaw(raw, type, []);
}

/** Writes a value of the given type. @throws CodecError when the value does not fit the type. */
export function encodeMsgpack(value: Value, type: Type): Uint8Array {
  return newEncoder().encode(toRaw(value, type, []));
}

function fromRaw(raw: unknown, type: Type, path: Path): Value {
  if (raw === null || raw === undefined) return null;
  if (raw instanceof Unknown) return raw;
  switch (type.kind) {
    case "string":
      if (typeof raw === "string") return raw;
      break;
    case "bool":
      if (typeof raw === "boolean") return raw;
      break;
    case "number":
    case "integer":
      if (typeof raw === "number" || typeof raw === "bigint" || typeof raw === "string") return number(raw, path);
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
      if (isRawMap(raw)) {
        const map = new Map<string, Value>();
        for (const prefixed of Object.keys(raw)) {
          const key = prefixed.slice(KEY_PREFIX.length);
          map.set(key, fromRaw(raw[prefixed], type.element, keyStep(path, key)));
        }
        return map;
      }
      break;
    case "object":
      if (isRawMap(raw)) {
        const object: Record<string, Value> = Object.create(null);
        for (const [name, attribute] of Object.entries(type.attributes)) {
          object[name] = fromRaw(raw[KEY_PREFIX + name], attribute, attributeStep(path, name));
        }
        return object;
      }
      break;
    case "dynamic":
      if (Array.isArray(raw) && raw.length === 2) {
        const inner = dynamicType(raw[0], path);
        return new Dynamic(inner, fromRaw(raw[1], inner, path));
      }
      break;
  }
  throw new CodecError(path, `expected ${type.kind}, got ${describe(raw)}`);
}

function dynamicType(raw: unknown, path: Path): Type {
  try {
    const json = raw instanceof Uint8Array ? Buffer.from(raw).toString("utf8") : String(raw);
    return typeFromJson(JSON.parse(json));
  } catch {
    throw new CodecError(path, "a dynamic value does not carry a valid type");
  }
}

function number(raw: number | bigint | string, path: Path): Numeric {
  try {
    return numeric(raw);
  } catch (error) {
    throw new CodecError(path, (error as Error).message);
  }
}

function isRawMap(raw: unknown): raw is Record<string, unknown> {
  return typeof raw === "object" && raw !== null && !Array.isArray(raw) && !(raw instanceof Uint8Array);
}

function toRaw(value: Value, type: Type, path: Path): unknown {
  if (value === null || value === undefined) return null;
  if (value instanceof Unknown) return encodeUnknown(value, type);
  switch (type.kind) {
    case "string":
      if (typeof value === "string") return value;
      break;
    case "bool":
      if (typeof value === "boolean") return value;
      break;
    case "number":
    case "integer":
      if (typeof value === "number" || value instanceof Decimal) return rawNumber(value);
      break;
    case "list":
    case "set":
      if (Array.isArray(value)) {
        return (value as readonly Value[]).map((item, i) => toRaw(item, type.element, indexStep(path, i)));
      }
      break;
    case "tuple":
      if (Array.isArray(value) && value.length === type.elements.length) {
        return type.elements.map((element, i) => toRaw((value as Value[])[i] ?? null, element, indexStep(path, i)));
      }
      break;
    case "map":
      if (value instanceof Map) {
        const raw: Record<string, unknown> = Object.create(null);
        for (const [key, item] of value as ReadonlyMap<string, Value>) {
          raw[key] = toRaw(item, type.element, keyStep(path, key));
        }
        return raw;
      }
      break;
    case "object":
      if (isObjectValue(value)) {
        const raw: Record<string, unknown> = Object.create(null);
        for (const [name, attribute] of Object.entries(type.attributes)) {
          raw[name] = toRaw(value[name] ?? null, attribute, attributeStep(path, name));
        }
        const extra = Object.keys(value).find((name) => !Object.hasOwn(type.attributes, name));
        if (extra !== undefined) throw new CodecError(path, `the type has no attribute ${JSON.stringify(extra)}`);
        return raw;
      }
      break;
    case "dynamic":
      if (value instanceof Dynamic) {
        return [Buffer.from(JSON.stringify(typeToJson(value.type))), toRaw(value.value, value.type, path)];
      }
      break;
  }
  throw new CodecError(path, `expected ${type.kind}, got ${describe(value)}`);
}

function isObjectValue(value: Value): value is ObjectValue {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Map) &&
    !(value instanceof Decimal) &&
    !(value instanceof Dynamic)
  );
}

/** The form the other side takes for exact: an integer of 64 bits, else a double that is the number, else its digits. */
function rawNumber(value: Numeric): number | bigint | string {
  if (typeof value === "number" && !Number.isFinite(value)) throw new RangeError("an infinite number is not supported");
  if (typeof value === "number" && (!Number.isInteger(value) || Math.abs(value) < 2 ** 32)) return value;
  const decimal = decimalOf(value);
  if (decimal.isInteger) {
    const integer = decimal.toBigInt();
    if (integer >= INT64_MIN && integer <= UINT64_MAX) return integer;
  }
  return typeof value === "number" ? value : value.toString();
}

function encodeUnknown(value: Unknown, type: Type): ExtData {
  const { refinement } = value;
  // A value of no known type cannot be refined.
  if (refinement === undefined || type.kind === "dynamic") return new ExtData(UNKNOWN_EXT, Uint8Array.of(0));
  const entries: [number, unknown][] = [];
  const { nullable, stringPrefix, numberMin, numberMax, lengthMin, lengthMax } = refinement;
  if (nullable === false) entries.push([REFINEMENT.nullness, false]);
  if (stringPrefix !== undefined) entries.push([REFINEMENT.stringPrefix, stringPrefix]);
  if (numberMin !== undefined) entries.push([REFINEMENT.numberMin, [rawNumber(numberMin.value), numberMin.inclusive]]);
  if (numberMax !== undefined) entries.push([REFINEMENT.numberMax, [rawNumber(numberMax.value), numberMax.inclusive]]);
  if (lengthMin !== undefined) entries.push([REFINEMENT.lengthMin, lengthMin]);
  if (lengthMax !== undefined) entries.push([REFINEMENT.lengthMax, lengthMax]);
  if (entries.length === 0) return new ExtData(UNKNOWN_EXT, Uint8Array.of(0));
  // The library writes only string keys, and these are integers: the map's header (fewer than 16 entries) and the
  // entries are joined by hand.
  const parts = entries.flatMap(([key, item]) => [newEncoder().encode(key), newEncoder().encode(item)]);
  return new ExtData(REFINED_UNKNOWN_EXT, Buffer.concat([Uint8Array.of(0x80 | entries.length), ...parts]));
}

function decodeRefinement(body: Uint8Array): Unknown {
  const raw = new Decoder({ useBigInt64: true }).decode(body);
  if (!isRawMap(raw)) return unknown;
  const bound = (entry: unknown) =>
    Array.isArray(entry)
      ? { value: numeric(entry[0] as number | bigint | string), inclusive: entry[1] === true }
      : null;
  const min = bound(raw[REFINEMENT.numberMin]);
  const max = bound(raw[REFINEMENT.numberMax]);
  const refinement: Refinement = {
    ...(raw[REFINEMENT.nullness] === false ? { nullable: false as const } : {}),
    ...(typeof raw[REFINEMENT.stringPrefix] === "string"
      ? { stringPrefix: raw[REFINEMENT.stringPrefix] as string }
      : {}),
    ...(min === null ? {} : { numberMin: min }),
    ...(max === null ? {} : { numberMax: max }),
    ...(raw[REFINEMENT.lengthMin] === undefined ? {} : { lengthMin: Number(raw[REFINEMENT.lengthMin]) }),
    ...(raw[REFINEMENT.lengthMax] === undefined ? {} : { lengthMax: Number(raw[REFINEMENT.lengthMax]) }),
  };
  return Object.keys(refinement).length === 0 ? unknown : new Unknown(refinement);
}
