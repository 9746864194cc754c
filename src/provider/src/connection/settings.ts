import { userInfo } from "node:os";
import { type ConnectionParts, parsePort, parseUrl, UrlError } from "./url";

export const SSL_MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] as const;
export type SslMode = (typeof SSL_MODES)[number];

export interface Timeouts {
  /** For making a connection, in ms. */
  readonly connectMs: number;
  /** For one statement, in ms; 0 = none. */
  readonly statementMs: number;
  /** For one wait on a lock, in ms; 0 = none. */
  readonly lockMs: number;
}

export interface ConnectionSettings {
  /** A name, an address, or the folder of a unix socket (which begins with a slash). */
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly username: string;
  readonly password: string | undefined;
  readonly sslmode: SslMode;
  /** A file's path, certificates in PEM, or `system`. */
  readonly sslRootCert: string | undefined;
  readonly timeouts: Timeouts;
}

/** Where the settings came from, for messages. */
export type Source = "the provider's arguments" | "WORKHORSE_DATABASE_URL" | "DATABASE_URL" | "the PG* variables";

/** Settings that cannot be used. The message quotes no secret. */
export class SettingsError extends Error {
  constructor(
    message: string,
    /** The provider's argument at fault, if it is one. */
    readonly argument?: string,
  ) {
    super(message);
    this.name = "SettingsError";
  }
}

/** The provider's connection arguments; undefined = left out. */
export interface ConnectionArguments extends ConnectionParts {
  readonly url?: string | undefined;
}

export interface Resolved {
  readonly settings: ConnectionSettings;
  readonly source: Source;
  /** Parameters of the URL that mean nothing here. */
  readonly ignored: readonly string[];
}

/**
 * Decides which database is meant. Sources never mix: any argument puts the URL variables out of play; the PG* variables
 * stand last, and fill what is left out beside single arguments.
 * @throws SettingsError
 */
export function resolveSettings(given: ConnectionArguments, env: NodeJS.ProcessEnv, timeouts: Timeouts): Resolved {
  const { url, ...parts } = given;
  const single = Object.entries(parts).find(([, value]) => value !== undefined)?.[0];
  if (url !== undefined && single !== undefined) {
    throw new SettingsError(
      `The database is given twice: as url and by ${argumentName(single)}. Leave one of them out.`,
      "url",
    );
  }
  if (url !== undefined) return fromUrl(url, "the provider's arguments", "url", timeouts);
  if (single === undefined) {
    for (const variable of ["WORKHORSE_DATABASE_URL", "DATABASE_URL"] as const) {
      const value = env[variable];
      if (value !== undefined && value !== "") return fromUrl(value, variable, undefined, timeouts);
    }
  }
  const variables = fromVariables(env);
  if (single === undefined && Object.values(variables).every((value) => value === undefined)) {
    throw new SettingsError(
      "No database is given. Set the provider's argument url (or host and its kin), or the environment variable " +
        "WORKHORSE_DATABASE_URL, DATABASE_URL, or PGHOST and its kin.",
    );
  }
  const merged: ConnectionParts = {
    host: parts.host ?? variables.host,
    port: parts.port ?? variables.port,
    database: parts.database ?? variables.database,
    username: parts.username ?? variables.username,
    password: parts.password ?? variables.password,
    sslmode: parts.sslmode ?? variables.sslmode,
    sslRootCert: parts.sslRootCert ?? variables.sslRootCert,
  };
  const source = single === undefined ? "the PG* variables" : "the provider's arguments";
  return { settings: complete(merged, source, timeouts), source, ignored: [] };
}

const argumentName = (field: string) => (field === "sslRootCert" ? "ssl_root_cert" : field);

function fromUrl(url: string, source: Source, argument: string | undefined, timeouts: Timeouts): Resolved {
  try {
    const { ignored, ...parts } = parseUrl(url);
    return { settings: complete(parts, source, timeouts), source, ignored };
  } catch (error) {
    if (!(error instanceof UrlError)) throw error;
    const name = argument === undefined ? `the environment variable ${source}` : "the provider's argument url";
    throw new SettingsError(`The connection URL in ${name} cannot be read. ${error.message}`, argument);
  }
}

function fromVariables(env: NodeJS.ProcessEnv): ConnectionParts {
  const given = (name: string) => (env[name] === "" ? undefined : env[name]);
  let port: number | undefined;
  try {
    port = parsePort(given("PGPORT"));
  } catch {
    throw new SettingsError("The environment variable PGPORT is no whole number from 1 to 65,535.");
  }
  return {
    host: given("PGHOST"),
    port,
    database: given("PGDATABASE"),
    username: given("PGUSER"),
    password: given("PGPASSWORD"),
    sslmode: given("PGSSLMODE"),
    sslRootCert: given("PGSSLROOTCERT"),
  };
}

/** Fills what is left out as libpq does. */
function complete(parts: ConnectionParts, source: Source, timeouts: Timeouts): ConnectionSettings {
  const sslmode = parts.sslmode ?? "prefer";
  if (!(SSL_MODES as readonly string[]).includes(sslmode)) {
    throw new SettingsError(
      `The sslmode in ${source} is ${JSON.stringify(sslmode)}; accepted is one of ${SSL_MODES.join(", ")}.`,
      source === "the provider's arguments" ? "sslmode" : undefined,
    );
  }
  const username = parts.username ?? userInfo().username;
  return {
    host: parts.host ?? "localhost",
    port: parts.port ?? 5432,
    database: parts.database ?? username,
    username,
    password: parts.password,
    sslmode: sslmode as SslMode,
    sslRootCert: parts.sslRootCert,
    timeouts,
  };
}
