import { kindOf, type Refuse, unstorable } from "../validation";

const accepted =
  "what JSON and PostgreSQL's jsonb can hold: null, booleans, finite numbers, text without NUL characters or lone " +
  "surrogates, arrays and plain objects of these (undefined only as the value of an object's field, which is left out)";

/** A value inside that JSON cannot hold. The path is relative to the value. */
class Unstorable extends Error {
  constructor(
    readonly place: string,
    readonly got: string,
  ) {
    super(got);
  }
}

/**
 * The value as JSON text for a jsonb parameter. What JSON would drop or change without a word is refused. The content never
 * shows in the error, for it may be secret.
 *
 * @throws what `refuse` makes, with the path of the value at fault below `path`.
 */
export function toJsonText(value: unknown, path: string, refuse: Refuse): string {
  // JSON.stringify walks depth first, so a holder's path is known before its fields are visited.
  const places = new Map<unknown, string>();
  function check(this: unknown, key: string, field: unknown): unknown {
    const isRoot = !places.has(this);
    const place = isRoot ? "" : placeOf(places.get(this)!, key, this);
    const problem = unstorable.test(key)
      ? "named with a NUL character or a lone surrogate"
      : valueProblem(field, isRoot || Array.isArray(this));
    if (problem !== undefined) throw new Unstorable(place, problem);
    if (typeof field === "object" && field !== null) places.set(field, place);
    return field;
  }
  try {
    return JSON.stringify(value, check);
  } catch (cause) {
    if (cause instanceof Unstorable) throw refuse({ path: path + cause.place, got: cause.got, accepted });
    const got = cause instanceof TypeError && /circular/i.test(cause.message) ? "circular" : "not serialisable";
    throw refuse({ path, got, accepted }, { cause });
  }
}

function valueProblem(value: unknown, undefinedCounts: boolean): string | undefined {
  switch (typeof value) {
    case "object":
      return value instanceof Map || value instanceof Set ? `${kindOf(value)}, which JSON would empty` : undefined;
    case "string":
      return unstorable.test(value) ? "text with a NUL character or a lone surrogate" : undefined;
    case "number":
      return Number.isFinite(value) ? undefined : String(value);
    case "undefined":
      return undefinedCounts ? "undefined" : undefined;
    case "bigint":
    case "function":
    case "symbol":
      return kindOf(value);
    default:
      return undefined;
  }
}

function placeOf(parent: string, key: string, holder: unknown): string {
  if (Array.isArray(holder)) return `${parent}[${key}]`;
  return /^[A-Za-z_$][\w$]*$/.test(key) ? `${parent}.${key}` : `${parent}[${JSON.stringify(key).slice(0, 64)}]`;
}
