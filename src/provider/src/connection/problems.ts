import { types } from "node:util";
import { SchemaError } from "@workhorse/sql";
import type { ConnectionSettings } from "./settings";

/** What kind of trouble the database gives; only `schema-missing` is ever answered by going on. */
export type ProblemKind = "schema-missing" | "schema" | "unreachable" | "refused" | "busy" | "failed";

/** Trouble with the database, told to the person: what, where, what to do. Its text holds no secret. */
export class DatabaseProblem extends Error {
  constructor(
    readonly kind: ProblemKind,
    readonly summary: string,
    readonly detail: string,
    options: { cause?: unknown } = {},
  ) {
    super(summary, options);
    this.name = "DatabaseProblem";
  }
}

/** `host:port/database`, for messages. */
export function locate({ host, port, database }: ConnectionSettings): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}/${database}`;
}

interface DriverError extends Error {
  readonly code?: string;
  readonly hint?: string;
}

export const INSTALL_HINT =
  "Install it with a resource workhorse_schema, which the policies name in their depends_on, or with installSchema() of @workhorse/sql.";

/** Driver errors of a connection that could not be made, by what they mean. */
const NETWORK: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ENOTFOUND: "the host name is unknown",
  EAI_AGAIN: "the host name cannot be looked up at present",
  ETIMEDOUT: "there is no answer",
  EHOSTUNREACH: "there is no way to the host",
  ENETUNREACH: "there is no way to the network",
  ECONNRESET: "the connection was cut off",
  EPIPE: "the connection was cut off",
  ENOENT: "the unix socket does not exist",
  EACCES: "the unix socket may not be used",
};

/** The driver's words for a connection that ended by itself. */
const LOST = /Connection terminated unexpectedly|Client has encountered a connection error/;

/** Turns whatever the driver or the SQL packages throw into a problem. What is none of theirs is returned as it is. */
export function toProblem(error: unknown, settings: ConnectionSettings): unknown {
  // Not instanceof: an error of Node.js itself may come from another realm.
  if (error instanceof DatabaseProblem || !types.isNativeError(error)) return error;
  const where = locate(settings);
  const problem = (kind: ProblemKind, summary: string, detail: string) =>
    new DatabaseProblem(kind, summary, detail, { cause: error });
  const unreachable = (reason: string, advice: string) =>
    problem("unreachable", `Cannot connect to PostgreSQL at ${where}`, `${sentence(reason)} ${advice}`);

  if (error instanceof SchemaError && error.problem !== "missing") {
    return problem("schema", `The schema workhorse at ${where} does not fit`, sentence(error.message));
  }
  // The typed errors of @workhorse/queue keep the driver's as their cause.
  const driver = (types.isNativeError(error.cause) && "code" in error.cause ? error.cause : error) as DriverError;
  const code = driver.code ?? "";
  const said = `PostgreSQL said: ${sentence(driver.message)}${driver.hint ? ` ${sentence(driver.hint)}` : ""}`;

  if (NETWORK[code] !== undefined) {
    return unreachable(
      NETWORK[code],
      "Check the provider's host and port, and that the server runs and may be reached.",
    );
  }
  switch (code) {
    case "3F000":
    case "42P01":
    case "42883":
      return problem("schema-missing", `Workhorse is not installed at ${where}`, `${said} ${INSTALL_HINT}`);
    case "28P01":
    case "28000":
      return unreachable(
        `the server refused user ${JSON.stringify(settings.username)}`,
        `${said} Check the provider's username and password, and the server's pg_hba.conf (it may want TLS: see sslmode).`,
      );
    case "3D000":
      return unreachable("the database does not exist", `${said} Create it, or correct the provider's database.`);
    case "53300":
      return unreachable(
        "the server has no free connection",
        `${said} This provider takes at most 4, and one with terraform's -parallelism=1.`,
      );
    case "57P03":
      return unreachable("the server is not ready", `${said} Try again in a while.`);
    case "57P01":
    case "57P02":
    case "08000":
    case "08003":
    case "08006":
      return problem(
        "unreachable",
        `The connection to PostgreSQL at ${where} was lost`,
        `${said} What was under way was either done as a whole or not at all; run Terraform again to see which.`,
      );
    case "42501":
      return problem(
        "refused",
        `User ${JSON.stringify(settings.username)} may not do this at ${where}`,
        `${said} Policies need the role <prefix>_policies that workhorse.create_roles_v1() makes; workhorse_schema needs the schema's owner.`,
      );
    case "55P03":
      return problem(
        "busy",
        `A lock at ${where} was not free in time`,
        `${said} Someone else holds it for more than ${settings.timeouts.lockMs} ms (lock_timeout_ms). Nothing was changed; try again.`,
      );
    case "57014":
      return problem(
        "busy",
        `A statement at ${where} took too long`,
        `${said} The limit is ${settings.timeouts.statementMs} ms (statement_timeout_ms). Nothing was changed; try again, or raise it.`,
      );
    case "25006":
      return problem(
        "refused",
        `The server at ${where} is read-only`,
        `${said} Connect to the primary server; if it is that, default_transaction_read_only is on for this user or database.`,
      );
  }
  if (isCertificateError(driver)) {
    return unreachable(
      `its TLS certificate is not accepted: ${driver.message}`,
      `sslmode is ${settings.sslmode}; give the authority's certificate as ssl_root_cert, or choose another sslmode.`,
    );
  }
  if (isTlsRefusal(driver)) {
    return unreachable(
      "the server does not speak TLS",
      `sslmode is ${settings.sslmode}; disable or prefer go without.`,
    );
  }
  if (/Query read timeout/.test(driver.message)) {
    return unreachable("the server stopped answering", "Check the network and the server, then run Terraform again.");
  }
  if (/timeout/i.test(driver.message) && code === "") {
    return unreachable(
      `there was no answer within ${settings.timeouts.connectMs} ms (connect_timeout_ms)`,
      "Check the provider's host and port, and that the server runs and may be reached.",
    );
  }
  if (LOST.test(driver.message)) {
    return problem(
      "unreachable",
      `The connection to PostgreSQL at ${where} was lost`,
      "What was under way was either done as a whole or not at all; run Terraform again to see which.",
    );
  }
  if (/^[0-9A-Z]{5}$/.test(code))
    return problem("failed", `PostgreSQL at ${where} refused`, `${said} (SQLSTATE ${code})`);
  return error;
}

/** Like {@link toProblem}, for what goes wrong before there is a connection: then the driver often has no more than a text. */
export function toConnectProblem(error: unknown, settings: ConnectionSettings): unknown {
  if (!types.isNativeError(error)) return error;
  const unreachable = (reason: string, advice: string) =>
    new DatabaseProblem("unreachable", `Cannot connect to PostgreSQL at ${locate(settings)}`, `${reason} ${advice}`, {
      cause: error,
    });
  if (/client password must be a/.test(error.message)) {
    return unreachable(
      `The server wants a password from user ${JSON.stringify(settings.username)}, and none is given.`,
      "Give it in the connection URL, or as the provider's password or PGPASSWORD.",
    );
  }
  const problem = toProblem(error, settings);
  const told = problem instanceof DatabaseProblem && !LOST.test(error.message);
  // The driver's own errors are plain ones; any other kind is not about the connection.
  if (told || error.name !== "Error") return problem;
  return unreachable(
    `What answers there does not behave like a PostgreSQL server, or ended the connection at once: ${sentence(error.message)}`,
    "Check the provider's host and port, and its sslmode.",
  );
}

/** The server turned a connection away for lack of TLS, or because of it: another way may do. */
export function wantsOtherTls(error: unknown): boolean {
  return types.isNativeError(error) && (isTlsRefusal(error) || (error as DriverError).code === "28000");
}

// The driver has no code for this answer of the server.
const isTlsRefusal = (error: Error) => /does not support SSL/.test(error.message);

const isCertificateError = ({ code = "" }: DriverError) =>
  /^(ERR_TLS|ERR_SSL|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|CERT_|HOSTNAME_MISMATCH|INVALID_CA)/.test(code);

function sentence(text: string): string {
  const trimmed = text.trim();
  const capital = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}
