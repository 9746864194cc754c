import { type Subject, translateError } from "./errors";
import type { Executor } from "./executor";
import type { Row } from "./rows";

/** Runs one statement and returns its rows. A refusal is thrown as a typed error, whose `cause` is the driver's. */
export async function call(
  executor: Executor,
  text: string,
  values: unknown[],
  subject: Subject = "argument",
): Promise<Row[]> {
  try {
    const { rows } = await executor.query(text, values);
    return rows as Row[];
  } catch (error) {
    throw translateError(error, subject);
  }
}
