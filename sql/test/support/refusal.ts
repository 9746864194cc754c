import { expect } from "@jest/globals";
import { DatabaseError } from "pg";

/** An error that SQL raised on purpose, with DETAIL parsed. */
export interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly detail: Record<string, unknown>;
}

/**
 * What a call was refused with. Fails if the call succeeds, or if what came was not one of our errors: each has a SQLSTATE, a
 * message, a HINT, and a DETAIL that is a JSON object.
 */
export async function refusalOf(call: Promise<unknown>): Promise<Refusal> {
  const error = await errorOf(call);
  expect(error.hint).toMatch(/\S.*[.]$/);
  const detail = JSON.parse(error.detail ?? "no DETAIL");
  expect(detail).toEqual(expect.any(Object));
  return { code: error.code!, message: error.message, hint: error.hint!, detail };
}

/** The error by which PostgreSQL answered. Fails if the call succeeds or something else rejected it. */
export async function errorOf(call: Promise<unknown>): Promise<DatabaseError> {
  const outcome = await call.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if (!("error" in outcome)) throw new Error(`accepted, but was to be refused: ${JSON.stringify(outcome.value)}`);
  if (!(outcome.error instanceof DatabaseError)) throw outcome.error;
  return outcome.error;
}
