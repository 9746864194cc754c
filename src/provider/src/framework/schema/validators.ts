import { Decimal } from "../values/decimal";

/** A test of one attribute's known, non-null value. Parts of a collection may still be unknown. */
export interface Validator<V> {
  /** What is accepted, to end "accepted is ...": used in errors and in the documentation. */
  readonly accepts: string;
  test(value: V): boolean;
}

const group = (n: number) => n.toLocaleString("en-US");

/** A whole number within bounds, both included. */
export function between(min: number, max: number): Validator<number> {
  return {
    accepts: `a whole number from ${group(min)} to ${group(max)}`,
    // A number that is no whole one is refused before; it may come here as a Decimal.
    test: (value) => !((value as unknown) instanceof Decimal) && value >= min && value <= max,
  };
}

/** Text whose UTF-8 form has a length within bounds, both included. */
export function utf8Bytes(min: number, max: number): Validator<string> {
  return {
    accepts: `${group(min)} to ${group(max)} bytes of UTF-8 text`,
    test: (value) => {
      const bytes = Buffer.byteLength(value, "utf8");
      return bytes >= min && bytes <= max;
    },
  };
}

/** One of a list of texts. */
export function oneOf<const S extends string>(...accepted: readonly S[]): Validator<string> {
  return {
    accepts: `one of ${accepted.map((text) => JSON.stringify(text)).join(", ")}`,
    test: (value) => (accepted as readonly string[]).includes(value),
  };
}

/** Text that matches a pattern; `accepts` says in words what does. */
export function matches(pattern: RegExp, accepts: string): Validator<string> {
  return { accepts, test: (value) => pattern.test(value) };
}

/** A collection with a number of elements within bounds, both included. */
export function size(
  min: number,
  max: number,
): Validator<{ readonly length: number } | { readonly size: number; readonly length?: never }> {
  return {
    accepts: `${group(min)} to ${group(max)} elements`,
    test: (value) => {
      const count = "size" in value ? value.size : value.length;
      return count >= min && count <= max;
    },
  };
}

/** A map each of whose keys passes. */
export function keys(validator: Validator<string>): Validator<ReadonlyMap<string, unknown>> {
  return {
    accepts: `a map whose keys are ${validator.accepts}`,
    test: (value) => [...value.keys()].every((key) => validator.test(key)),
  };
}

/** A list or set each of whose known elements passes. */
export function elements<V>(
  validator: Validator<V>,
  isKnown: (item: unknown) => item is V,
): Validator<readonly unknown[]> {
  return {
    accepts: `elements that are ${validator.accepts}`,
    test: (value) => value.every((item) => !isKnown(item) || validator.test(item)),
  };
}
