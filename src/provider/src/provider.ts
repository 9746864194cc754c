import type { Client } from "./client";
import { Database } from "./connection/database";
import { DatabaseProblem } from "./connection/problems";
import { type ConnectionArguments, resolveSettings, SettingsError, SSL_MODES } from "./connection/settings";
import { concurrencyPoliciesData, rateLimitPoliciesData } from "./data-sources/policies";
import {
  attribute,
  between,
  type ConfigOf,
  type Diagnostic,
  defineProvider,
  defineSchema,
  isWhollyKnown,
  type Log,
  oneOf,
  type Provider,
  pathOf,
} from "./framework";
import { perDay, perHour, perMinute, perSecond } from "./functions/rates";
import { RunHistory } from "./policies/run-history";
import { concurrencyPolicies } from "./resources/concurrency-policies";
import { rateLimitPolicies } from "./resources/rate-limit-policies";
import { workhorseSchema } from "./resources/schema";

const timeout = (what: string, min: number, defaultMs: number) =>
  attribute.integer({
    optional: true,
    description: `${what}, in milliseconds. Default ${defaultMs.toLocaleString("en-US")}.`,
    validators: [between(min, 3_600_000)],
  });

const DEFAULT_TIMEOUTS = { connectMs: 10_000, statementMs: 60_000, lockMs: 30_000 };

const schema = defineSchema({
  description:
    "Rate limits and concurrency caps of Workhorse's job queues, as code. Connects to the PostgreSQL database that holds " +
    "the queues. Give it by `url`, or by `host` and its kin, or by the environment: `WORKHORSE_DATABASE_URL`, else " +
    "`DATABASE_URL`, else `PGHOST`, `PGPORT`, `PGDATABASE`, `PGUSER`, `PGPASSWORD`, `PGSSLMODE`, `PGSSLROOTCERT`. Sources " +
    "never mix: with any argument set, the URL variables are ignored; the `PG*` variables fill what is left out beside `host`.",
  attributes: {
    url: attribute.string({
      optional: true,
      sensitive: true,
      description:
        "`postgresql://user:password@host:port/database?sslmode=...`, special characters percent-encoded. Not together " +
        "with the arguments below.",
    }),
    host: attribute.string({
      optional: true,
      description: "Name or address of the server, or the folder of its unix socket. Default `localhost`.",
    }),
    port: attribute.integer({ optional: true, description: "Default 5432.", validators: [between(1, 65_535)] }),
    database: attribute.string({ optional: true, description: "Default: the user's name." }),
    username: attribute.string({ optional: true, description: "Default: the system user's name." }),
    password: attribute.string({ optional: true, sensitive: true, description: "Default: none." }),
    sslmode: attribute.string({
      optional: true,
      description:
        "As libpq defines it: `disable`, `allow`, `prefer` (the default), `require` (encrypted, but the server is not " +
        "verified unless there is an `ssl_root_cert`), `verify-ca`, `verify-full`.",
      validators: [oneOf(...SSL_MODES)],
    }),
    ssl_root_cert: attribute.string({
      optional: true,
      description:
        "Certificates of the authorities that are trusted: the path of a PEM file, the PEM text itself, or `system`. " +
        "Default: `~/.postgresql/root.crt` if it exists, else the system's.",
    }),
    connect_timeout_ms: timeout("How long making a connection may take", 1, DEFAULT_TIMEOUTS.connectMs),
    statement_timeout_ms: timeout("How long one statement may take", 1, DEFAULT_TIMEOUTS.statementMs),
    lock_timeout_ms: timeout("How long one wait for a lock may take", 1, DEFAULT_TIMEOUTS.lockMs),
  },
});

/** Workhorse's provider. */
export function workhorseProvider(env: NodeJS.ProcessEnv): Provider<Client> {
  return defineProvider<Client, typeof schema>({
    schema,
    resources: [workhorseSchema, rateLimitPolicies, concurrencyPolicies],
    dataSources: [rateLimitPoliciesData, concurrencyPoliciesData],
    functions: [perSecond, perMinute, perHour, perDay],

    configure({ config, diagnostics, redact, log }) {
      if (!isWhollyKnown(config)) return { database: undefined, history: new RunHistory() };
      const { settings, source, ignored } = resolve(config as KnownConfig, env);
      if (settings.password !== undefined) redact(settings.password);
      if (ignored.length > 0) {
        diagnostics.warning(
          "Parameters of the connection URL are ignored",
          `They mean nothing to this provider: ${ignored.join(", ")}. The URL comes from ${source}.`,
        );
      }
      logSettings(log, source, settings.host, settings.port, settings.sslmode);
      return { database: new Database(settings), history: new RunHistory() };
    },

    explain: explainError,
    close: ({ database }) => database?.close(),
  });
}

type KnownConfig = { readonly [K in keyof ConfigOf<typeof schema>]: string | number | null };

function resolve(config: KnownConfig, env: NodeJS.ProcessEnv) {
  const text = (value: string | number | null) => (value === null || value === "" ? undefined : String(value));
  const number = (value: string | number | null) => (value === null ? undefined : Number(value));
  const given: ConnectionArguments = {
    url: text(config.url),
    host: text(config.host),
    port: number(config.port),
    database: text(config.database),
    username: text(config.username),
    password: text(config.password),
    sslmode: text(config.sslmode),
    sslRootCert: text(config.ssl_root_cert),
  };
  return resolveSettings(given, env, {
    connectMs: number(config.connect_timeout_ms) ?? DEFAULT_TIMEOUTS.connectMs,
    statementMs: number(config.statement_timeout_ms) ?? DEFAULT_TIMEOUTS.statementMs,
    lockMs: number(config.lock_timeout_ms) ?? DEFAULT_TIMEOUTS.lockMs,
  });
}

function logSettings(log: Log, source: string, host: string, port: number, sslmode: string): void {
  log.debug("database configured", { source, host, port, sslmode });
}

function explainError(error: unknown): Diagnostic | undefined {
  if (error instanceof DatabaseProblem) {
    return { severity: "error", summary: error.summary, detail: error.detail };
  }
  if (error instanceof SettingsError) {
    return {
      severity: "error",
      summary: "The database connection is not configured rightly",
      detail: error.message,
      ...(error.argument === undefined ? {} : { path: pathOf(error.argument) }),
    };
  }
  return undefined;
}
