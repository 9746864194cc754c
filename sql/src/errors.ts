/** Why a schema cannot be used: it is not there, something else made it, or its version does not fit. */
export type SchemaProblem = "missing" | "foreign" | "incompatible";

/** The schema `workhorse` of a database cannot be used or installed. `code` is the SQLSTATE that SQL raises for the same. */
export class SchemaError extends Error {
  override readonly name: string = "SchemaError";
  readonly code = "WH003";

  constructor(
    readonly problem: SchemaProblem,
    message: string,
    options: { cause?: unknown } = {},
  ) {
    super(message, options);
  }
}
