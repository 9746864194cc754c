import type { Numeric } from "./decimal";

/** What is already certain about a value that is not yet known. Every field is optional: absent = nothing is known. */
export interface Refinement {
  /** `false`: certainly not null. */
  readonly nullable?: false;
  /** A string that the value certainly starts with. */
  readonly stringPrefix?: string;
  readonly numberMin?: { readonly value: Numeric; readonly inclusive: boolean };
  readonly numberMax?: { readonly value: Numeric; readonly inclusive: boolean };
  /** Fewest elements of a collection. */
  readonly lengthMin?: number;
  /** Most elements of a collection. */
  readonly lengthMax?: number;
}

/** A value that Terraform will only know during apply. */
export class Unknown {
  constructor(readonly refinement?: Refinement) {}
}

/** The plain unknown value. */
export const unknown = new Unknown();

/** Narrows away the unknown. Null counts as known. */
export function isKnown<T>(value: T | Unknown): value is T {
  return !(value instanceof Unknown);
}
