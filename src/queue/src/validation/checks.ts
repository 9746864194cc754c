import { type Bound, bounds } from "@workhorse/sql";
import { type Fault, InvalidArgumentError } from "../errors";
import { type Executor, isExecutor } from "../executor";
import { grouped, shown } from "./describe";
import { nearest } from "./nearest";

/** A fault that a check found: all of it is known. */
export interface FoundFault extends Fault {
  readonly path: string;
  readonly got: string;
  readonly accepted: string;
}

/** Makes the error for what a check found, so that each caller says what it was about. */
export type Refuse = (fault: FoundFault, options?: { cause?: unknown }) => Error;

/** The sentence in the middle of every refusal. */
export function faultText(fault: FoundFault): string {
  return `${fault.path} is ${fault.got}; accepted: ${fault.accepted}`;
}

/** Refusals of a method's arguments. */
export function refuseArgument(method: string): Refuse {
  return (fault, options) =>
    new InvalidArgumentError(`invalid call of ${method}: ${faultText(fault)}.`, fault, options);
}

/** Throws unless the value is a plain object whose keys are all known; an unknown one suggests the nearest. */
export function checkKeys<T extends object>(
  value: unknown,
  known: ReadonlyArray<keyof T & string>,
  path: string,
  refuse: Refuse,
): asserts value is Partial<Record<keyof T, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw refuse({ path, got: shown(value), accepted: `an object with ${known.join(", ")}` });
  }
  for (const key of Object.keys(value)) {
    if ((known as readonly string[]).includes(key)) continue;
    const meant = nearest(key, known);
    throw refuse({
      path: `${path}.${key}`,
      got: "not a known field",
      accepted:
        meant === undefined ? known.join(", ") : `${meant} (did you mean that?), all of them: ${known.join(", ")}`,
    });
  }
}

/** Throws unless the value is an integer within the bound. Returns it. */
export function checkInteger(value: unknown, bound: Bound, path: string, refuse: Refuse): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < bound.min || value > bound.max) {
    const accepted = `an integer from ${grouped(bound.min)} to ${grouped(bound.max)}`;
    throw refuse({ path, got: shown(value), accepted });
  }
  return value;
}

/** Throws unless the value is a number within the bound; fractions are accepted. Returns it. */
export function checkNumber(value: unknown, bound: Bound, path: string, refuse: Refuse): number {
  if (typeof value !== "number" || !(value >= bound.min && value <= bound.max)) {
    const accepted = `a number from ${grouped(bound.min)} to ${grouped(bound.max)}`;
    throw refuse({ path, got: shown(value), accepted });
  }
  return value;
}

/** Throws unless the value is `true` or `false`. Returns it. */
export function checkBoolean(value: unknown, path: string, refuse: Refuse): boolean {
  if (typeof value !== "boolean") throw refuse({ path, got: shown(value), accepted: "true or false" });
  return value;
}

/** Characters that PostgreSQL's text cannot hold: NUL, and half of a surrogate pair. */
export const unstorable = /[\0\p{Cs}]/u;

/** Throws unless the value names something: a string of 1 to 256 bytes of UTF-8. Returns it. */
export function checkName(value: unknown, path: string, refuse: Refuse): string {
  const { min, max } = bounds.nameBytes;
  const accepted = `a string of ${min} to ${max} bytes`;
  if (typeof value !== "string") throw refuse({ path, got: shown(value), accepted });
  // A string never has fewer bytes than UTF-16 units: a huge one is refused without measuring it.
  const bytes = value.length > max ? value.length : Buffer.byteLength(value);
  if (bytes < min || bytes > max) {
    throw refuse({ path, got: bytes === 0 ? "empty" : `too long (${shown(value)})`, accepted });
  }
  if (unstorable.test(value)) {
    throw refuse({
      path,
      got: `${shown(value)}, with a NUL character or a lone surrogate`,
      accepted: `${accepted} of whole characters`,
    });
  }
  return value;
}

/** Throws unless the value is undefined or a list of names. */
export function checkNames(value: unknown, path: string, refuse: Refuse): void {
  if (value === undefined) return;
  if (!Array.isArray(value))
    throw refuse({ path, got: shown(value), accepted: "an array of queue names, or nothing for all" });
  for (const [index, name] of value.entries()) checkName(name, `${path}[${index}]`, refuse);
}

/** Throws unless the value is undefined or can run queries. */
export function checkExecutor(value: unknown, path: string, refuse: Refuse): asserts value is Executor | undefined {
  if (value !== undefined && !isExecutor(value)) {
    throw refuse({
      path,
      got: shown(value),
      accepted: "a pg Pool, Client or PoolClient, or another object with query(text, values)",
    });
  }
}
