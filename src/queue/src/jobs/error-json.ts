import { inspect } from "node:util";

/** A thrown value as it is kept with the job: bounded in size, whatever was thrown. */
export interface ErrorJson {
  readonly name: string;
  /** At most 4,096 characters. */
  readonly message: string;
  /** At most 8,192 characters. */
  readonly stack?: string;
  readonly code?: string | number;
  /** At most 4 deep. */
  readonly cause?: ErrorJson;
  /** Of an AggregateError: at most 5. */
  readonly errors?: readonly ErrorJson[];
}

const longestName = 256;
const longestMessage = 4_096;
const longestStack = 8_192;
const deepestCause = 4;
const mostErrors = 5;

/** Describes any thrown value; never throws. */
export function toErrorJson(thrown: unknown): ErrorJson {
  return describe(thrown, deepestCause);
}

function describe(thrown: unknown, causesLeft: number): ErrorJson {
  try {
    return thrown instanceof Error ? describeError(thrown, causesLeft) : describeOther(thrown);
  } catch {
    // A getter or a proxy that throws.
    return { name: "Error", message: "a value was thrown that cannot be read" };
  }
}

function describeError(error: Error, causesLeft: number): ErrorJson {
  const code = (error as { code?: unknown }).code;
  const { stack, cause } = error;
  const errors =
    error instanceof AggregateError && Array.isArray(error.errors) ? (error.errors as unknown[]) : undefined;
  return {
    name: clip(String(error.name), longestName),
    message: clip(String(error.message), longestMessage),
    ...(typeof stack === "string" ? { stack: clip(stack, longestStack) } : {}),
    ...(typeof code === "number" && Number.isFinite(code) ? { code } : {}),
    ...(typeof code === "string" ? { code: clip(code, longestName) } : {}),
    ...(cause !== undefined && causesLeft > 0 ? { cause: describe(cause, causesLeft - 1) } : {}),
    ...(errors !== undefined && causesLeft > 0
      ? { errors: errors.slice(0, mostErrors).map((each) => describe(each, 0)) }
      : {}),
  };
}

function describeOther(thrown: unknown): ErrorJson {
  const text =
    typeof thrown === "string" ? thrown : inspect(thrown, { depth: 2, maxStringLength: 1_000, breakLength: Infinity });
  return { name: "NotAnError", message: clip(text, longestMessage) };
}

/** Shortens, and replaces what PostgreSQL's text cannot hold (also half a pair that the shortening left). */
function clip(text: string, longest: number): string {
  const rest = text.length - longest;
  const kept = rest > 0 ? `${text.slice(0, longest)}... (${rest} more characters)` : text;
  return kept.replaceAll(/[\0\p{Cs}]/gu, "\uFFFD");
}
