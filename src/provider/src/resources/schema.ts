import type { Executor } from "@workhorse/queue";
import { formatVersion, installedVersion, installSchema, majorOf, SchemaError, schemaVersion } from "@workhorse/sql";
import { type Client, requireDatabase } from "../client";
import type { Database } from "../connection/database";
import { DatabaseProblem, locate } from "../connection/problems";
import {
  attribute,
  type ClientContext,
  DiagnosticError,
  defineResource,
  defineSchema,
  oneOf,
  pathOf,
  unknown,
} from "../framework";

const schema = defineSchema({
  description:
    "Workhorse's tables and functions in the database: the PostgreSQL schema `workhorse`. It is installed, adopted where " +
    "it already is, and upgraded in place when a newer provider brings a newer version. Policies of the same configuration " +
    "name it in their `depends_on`.",
  attributes: {
    id: attribute.string({ computed: true, description: "Always `workhorse`." }),
    version: attribute.string({
      computed: true,
      description: "The installed version, such as `1.0`. A plan shows an upgrade as its change.",
    }),
    on_destroy: attribute.string({
      default: "retain",
      description:
        "What a destroy does: `retain` leaves everything in the database (the default), `drop` removes the schema with all " +
        "policies and jobs, which is refused while unfinished jobs exist.",
      validators: [oneOf("retain", "drop")],
    }),
  },
});

const ID = "workhorse";

export const workhorseSchema = defineResource<Client, typeof schema>({
  typeName: "workhorse_schema",
  schema,

  async read({ client, state, signal }) {
    if (client.database === undefined) return state;
    const version = await client.database.transaction(signal, installedVersion);
    return version === null ? null : { ...state, id: ID, version: formatVersion(version) };
  },

  async plan({ client, prior, planned, signal }) {
    if (client.database === undefined) return { ...planned, id: ID, version: prior?.version ?? unknown };
    const found = await client.database.transaction(signal, installedVersion);
    if (found !== null && majorOf(found) > majorOf(schemaVersion)) throw newerMajor(client.database, found);
    // A newer minor version is compatible, and is never taken back.
    return { ...planned, id: ID, version: formatVersion(Math.max(found ?? 0, schemaVersion)) };
  },

  async create(context) {
    return { ...context.planned, id: ID, version: await install(context) };
  },

  async update(context) {
    return { ...context.planned, id: ID, version: await install(context) };
  },

  async planDelete({ client, prior, signal, diagnostics }) {
    if (prior.on_destroy === "retain") {
      diagnostics.warning(
        "The schema workhorse stays in the database",
        'on_destroy is "retain": the destroy only forgets the schema; its tables, policies and jobs remain.',
      );
    } else if (client.database !== undefined) {
      await client.database.transaction(signal, refuseUnfinished);
    }
  },

  async delete(context) {
    if (context.prior.on_destroy === "retain") return;
    await requireDatabase(context).transaction(context.signal, async (executor) => {
      await executor.query("SELECT pg_advisory_xact_lock(hashtextextended('workhorse:install', 0))");
      if ((await installedVersion(executor)) === null) return;
      // Nobody enqueues between the look and the end.
      await executor.query("LOCK TABLE workhorse.job IN ACCESS EXCLUSIVE MODE");
      await refuseUnfinished(executor);
      await executor.query("DROP SCHEMA workhorse CASCADE");
    });
  },

  async import(context) {
    const { target, signal } = context;
    if (!("id" in target) || target.id !== ID) {
      throw DiagnosticError.of("Invalid id", `The id of a workhorse_schema is always "${ID}".`);
    }
    const database = requireDatabase(context);
    const version = await database.transaction(signal, installedVersion);
    if (version === null) {
      throw DiagnosticError.of(
        `Workhorse is not installed at ${locate(database.settings)}`,
        "There is nothing to import; a plain apply installs it.",
      );
    }
    return { id: ID, version: formatVersion(version), on_destroy: "retain" };
  },
});

async function install(context: ClientContext<Client>): Promise<string> {
  const database = requireDatabase(context);
  const { from, to, applied } = await database.connection(context.signal, installSchema);
  context.log.info("installed the schema", { from: from ?? 0, to, steps: applied.length });
  return formatVersion(to);
}

/** @throws DiagnosticError while jobs are neither completed, failed nor cancelled. */
async function refuseUnfinished(executor: Executor): Promise<void> {
  if ((await installedVersion(executor)) === null) return;
  const { rows } = await executor.query(
    "SELECT count(*)::int AS count FROM workhorse.job WHERE state NOT IN ('completed', 'failed', 'cancelled')",
  );
  const { count } = rows[0] as { count: number };
  if (count === 0) return;
  throw DiagnosticError.of(
    `The schema workhorse still has ${count.toLocaleString("en-US")} unfinished jobs`,
    'on_destroy is "drop", which would lose them. Nothing was removed. Let the workers finish, cancel the jobs, or set ' +
      'on_destroy = "retain" and apply that first.',
    pathOf("on_destroy"),
  );
}

function newerMajor(database: Database, found: number): DatabaseProblem {
  return new DatabaseProblem(
    "schema",
    `The schema workhorse at ${locate(database.settings)} is newer than this provider`,
    `Found: ${formatVersion(found)}; this provider knows ${majorOf(schemaVersion)}.x. Upgrade the provider; nothing was changed.`,
    { cause: new SchemaError("incompatible", "newer major version") },
  );
}
