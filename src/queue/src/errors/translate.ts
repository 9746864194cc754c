import { SchemaError } from "@workhorse/sql";
import {
  type Fault,
  InvalidArgumentError,
  InvalidDefinitionError,
  InvalidJobError,
  IsolationLevelError,
  LeaseLostError,
  OwnershipConflictError,
  PermissionError,
  RefusedError,
} from "./classes";

/** What was handed in, so that a refusal of the database (WH002) becomes the right kind of error. */
export type Subject = "definition" | "job" | "argument";

/** The fields of PostgreSQL's errors that are read, as every driver names them. */
interface ServerError extends Error {
  readonly code: string;
  readonly detail?: unknown;
  readonly hint?: unknown;
  readonly routine?: unknown;
}

/**
 * The typed error for what a query was rejected with, told by SQLSTATE alone; the original is kept as `cause`. Anything
 * else (a broken connection, a timeout, a deadlock) is returned as it is.
 */
export function translateError(error: unknown, subject: Subject): unknown {
  if (!isServerError(error)) return error;
  const options = { cause: error };
  const facts = readFacts(error.detail);
  switch (error.code) {
    case "WH001":
      return new OwnershipConflictError(
        withHint(error),
        { namespace: facts.text("namespace"), queue: facts.text("queue"), owner: facts.text("owner") },
        options,
      );
    case "WH002":
      return invalid(subject, withHint(error), faultOf(facts), options);
    case "WH003":
      return new SchemaError("incompatible", withHint(error), options);
    case "WH004":
      return new LeaseLostError(facts.text("job_id"), withHint(error), options);
    case "0A000":
      // Our functions raise this from PL/pgSQL; the server itself has other uses of the code.
      return error.routine === "exec_stmt_raise" ? new IsolationLevelError(withHint(error), options) : error;
    case "P0001":
      return new RefusedError(withHint(error), options);
    case "22P05":
      return invalid(
        subject,
        `the database cannot store a text of this ${subject}: ${error.message}. Remove the NUL characters (\\u0000) from it.`,
        { accepted: "text without NUL characters" },
        options,
      );
    case "3F000":
    case "42P01":
    case "42883":
      return new SchemaError(
        "missing",
        `the schema workhorse is not installed in this database, or not all of it (${error.message}). ` +
          "Install or upgrade it with installSchema(client) from @workhorse/sql or the Terraform resource workhorse_schema.",
        options,
      );
    case "42501":
      return new PermissionError(
        `the database role in use may not do this (${error.message}). Grant it one of the roles that ` +
          "workhorse.create_roles_v1() makes: <prefix>_policies changes policies, <prefix>_worker enqueues and runs jobs, " +
          "<prefix>_reader reads.",
        options,
      );
    default:
      return error;
  }
}

function invalid(subject: Subject, message: string, fault: Fault, options: { cause: unknown }): InvalidArgumentError {
  switch (subject) {
    case "definition":
      return new InvalidDefinitionError(message, fault, options);
    case "job":
      return new InvalidJobError(message, fault, options);
    case "argument":
      return new InvalidArgumentError(message, fault, options);
  }
}

function isServerError(error: unknown): error is ServerError {
  return error instanceof Error && /^[0-9A-Z]{5}$/.test(String((error as Partial<ServerError>).code));
}

function withHint(error: ServerError): string {
  const message = /[.!?]$/.test(error.message) ? error.message : `${error.message}.`;
  return typeof error.hint === "string" && error.hint !== "" ? `${message} ${error.hint}` : message;
}

interface Facts {
  text(name: string): string | undefined;
  integer(name: string): number | undefined;
}

/** DETAIL is a JSON object when our functions raise; other installers' may be anything, or be missing. */
function readFacts(detail: unknown): Facts {
  let found: unknown;
  try {
    found = typeof detail === "string" ? JSON.parse(detail) : undefined;
  } catch {
    found = undefined;
  }
  const fields = (typeof found === "object" && found !== null ? found : {}) as Record<string, unknown>;
  return {
    text: (name) => {
      const value = fields[name];
      return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
    },
    integer: (name) => {
      const value = fields[name];
      return Number.isSafeInteger(value) ? (value as number) : undefined;
    },
  };
}

function faultOf(facts: Facts): Fault {
  return { namespace: facts.text("namespace"), queue: facts.text("queue"), index: facts.integer("index") };
}
