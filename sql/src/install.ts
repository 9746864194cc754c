import { SchemaError } from "./errors";
import { functions, type Migration, migrations, schemaVersion } from "./migrations";
import { formatVersion, majorOf, type SchemaVersion } from "./version";

/** One connection to PostgreSQL: a pg `Client` or `PoolClient`, or anything with this method. */
export interface SqlClient {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

/** What an installation did. */
export interface Installation {
  /** Version found, or null when the schema was not there. */
  readonly from: SchemaVersion | null;
  /** Version that the database has now. */
  readonly to: SchemaVersion;
  /** The ledger rows that this call wrote, in order; empty when there was nothing to do. */
  readonly applied: ReadonlyArray<{ version: SchemaVersion; name: string }>;
}

/** The oldest PostgreSQL that the SQL runs on, as `server_version_num`. */
const oldestServer = 150_000;

/**
 * Installs the schema `workhorse`, or upgrades it in place. Each migration is a transaction of its own together with its
 * row in the ledger `workhorse.schema_migration`; any number of installers may run at once, one of them does the work.
 * An older minor version never undoes what a newer one installed.
 *
 * @param client one connection (not a pool), outside of a transaction, as a role that may create schemas in the database
 *   or owns the installed one.
 * @throws SchemaError `foreign` when something else made a schema of that name; `incompatible` when the database has a newer
 *   major version than this package knows, a migration that was edited since, a ledger with rows missing, or a PostgreSQL
 *   older than 15.
 * @throws the driver's error when the database cannot be reached or refuses; the transaction under way is rolled back.
 */
export async function installSchema(client: SqlClient): Promise<Installation> {
  await checkConnection(client);
  let from: SchemaVersion | null | undefined;
  const applied: { version: SchemaVersion; name: string }[] = [];
  for (const migration of migrations) {
    // The functions go with the newest migration, so that a version in the ledger never stands without its functions.
    const steps = migration.version === schemaVersion ? [migration, functions] : [migration];
    const found = await inTransaction(client, () => applySteps(client, steps, applied));
    if (from === undefined) from = found;
  }
  return { from: from ?? null, to: Math.max(from ?? 0, schemaVersion), applied };
}

/**
 * The version of the installed schema, or null when there is none.
 *
 * @throws SchemaError `foreign` when the schema exists but has no ledger of ours, `incompatible` when the ledger is empty.
 */
export async function installedVersion(client: SqlClient): Promise<SchemaVersion | null> {
  const { rows } = await client.query(
    `SELECT to_regnamespace('workhorse') IS NOT NULL AS schema_exists,
       (SELECT count(*) = 4 FROM pg_catalog.pg_attribute
        WHERE attrelid = to_regclass('workhorse.schema_migration')
          AND attname IN ('version', 'name', 'checksum', 'applied_at')) AS ledger_exists`,
  );
  const { schema_exists, ledger_exists } = rows[0] as { schema_exists: boolean; ledger_exists: boolean };
  if (!schema_exists) return null;
  if (!ledger_exists) {
    throw new SchemaError(
      "foreign",
      "the database has a schema named workhorse that something else made (it has no table workhorse.schema_migration). " +
        "Rename or drop that schema, or use another database.",
    );
  }
  const ledger = await client.query("SELECT max(version) AS version FROM workhorse.schema_migration");
  const { version } = ledger.rows[0] as { version: number | null };
  if (version === null) {
    // It is made in one transaction with its first row, so somebody emptied it.
    throw new SchemaError(
      "incompatible",
      "the schema workhorse is there, but its ledger workhorse.schema_migration is empty, so nobody can tell its version. " +
        "Restore the ledger's rows from a backup; nothing was changed.",
    );
  }
  return version;
}

/**
 * Throws unless an installed version can be used by this package: it must be there, of a known major, and no older.
 *
 * @throws SchemaError `missing` or `incompatible`, each with found, required and what to do.
 */
export function requireVersion(found: SchemaVersion | null): void {
  const required = formatVersion(schemaVersion);
  if (found === null) {
    throw new SchemaError(
      "missing",
      `the schema workhorse is not installed in this database. Found: none; required: ${required}. ` +
        "Install it with installSchema(client) from @workhorse/sql or the Terraform resource workhorse_schema.",
    );
  }
  if (majorOf(found) > majorOf(schemaVersion)) throw newerMajor(found);
  if (found < schemaVersion) {
    throw new SchemaError(
      "incompatible",
      `the schema workhorse is older than this program. Found: ${formatVersion(found)}; required: ${required} or newer. ` +
        "Upgrade it with installSchema(client) from @workhorse/sql or the Terraform resource workhorse_schema.",
    );
  }
}

function newerMajor(found: SchemaVersion): SchemaError {
  return new SchemaError(
    "incompatible",
    `the schema workhorse is newer than this program knows. Found: ${formatVersion(found)}; ` +
      `required: ${majorOf(schemaVersion)}.x. Upgrade the @workhorse packages (or the Terraform provider) to the release ` +
      `that brought ${formatVersion(found)}; nothing was changed.`,
  );
}

async function checkConnection(client: SqlClient): Promise<void> {
  const { rows } = await client.query(
    `SELECT current_setting('server_version_num')::int AS server, current_setting('server_version') AS shown,
       transaction_timestamp() <> statement_timestamp() AS in_transaction`,
  );
  const { server, shown, in_transaction } = rows[0] as { server: number; shown: string; in_transaction: boolean };
  if (server < oldestServer) {
    throw new SchemaError(
      "incompatible",
      `this PostgreSQL is too old. Found: ${shown}; required: 15 or newer. Upgrade the server.`,
    );
  }
  if (in_transaction) {
    throw new Error(
      "installSchema was called inside a transaction; each of its migrations is a transaction of its own. " +
        "Commit first, or give it a connection of its own.",
    );
  }
}

/** Applies the steps that the ledger does not have. Returns the version found before. Runs inside a transaction. */
async function applySteps(
  client: SqlClient,
  steps: readonly Migration[],
  applied: { version: SchemaVersion; name: string }[],
): Promise<SchemaVersion | null> {
  await client.query("SELECT pg_advisory_xact_lock(hashtextextended('workhorse:install', 0))");
  const found = await installedVersion(client);
  if (found === null) await client.query(ledgerSql);
  else if (majorOf(found) > majorOf(schemaVersion)) throw newerMajor(found);
  for (const step of steps) {
    if (await applyStep(client, step, found)) applied.push({ version: step.version, name: step.name });
  }
  return found;
}

/** Applies one step unless the ledger has it; tells whether it did. */
async function applyStep(client: SqlClient, step: Migration, found: SchemaVersion | null): Promise<boolean> {
  const { rows } = await client.query(
    "SELECT checksum FROM workhorse.schema_migration WHERE version = $1 AND name = $2",
    [step.version, step.name],
  );
  const recorded = (rows[0] as { checksum: string } | undefined)?.checksum;
  if (recorded === step.checksum) return false;
  if (step.name === functions.name) {
    // A newer minor version's functions stay.
    if (found !== null && found > schemaVersion) return false;
  } else if (recorded !== undefined) {
    throw new SchemaError(
      "incompatible",
      `migration ${step.version} (${step.name}) of the schema workhorse was changed after it was applied. ` +
        `Found: checksum ${recorded.slice(0, 12)}; required: ${step.checksum.slice(0, 12)}. Use the release that installed it.`,
    );
  }
  if (step.name !== functions.name && found !== null && found >= step.version) {
    throw new SchemaError(
      "incompatible",
      `the ledger workhorse.schema_migration lacks migration ${step.version} (${step.name}). ` +
        `Found: version ${formatVersion(found)} without it; required: all rows up to that version. ` +
        "Restore the ledger's rows from a backup; nothing was changed.",
    );
  }
  await client.query(step.sql);
  await client.query(
    `INSERT INTO workhorse.schema_migration (version, name, checksum, applied_at)
     VALUES ($1, $2, $3, clock_timestamp())
     ON CONFLICT (version, name) DO UPDATE SET checksum = excluded.checksum, applied_at = excluded.applied_at`,
    [step.version, step.name, step.checksum],
  );
  return true;
}

const ledgerSql = `
  CREATE SCHEMA workhorse;
  COMMENT ON SCHEMA workhorse IS 'Workhorse: queues with rate limits and concurrency caps';
  CREATE TABLE workhorse.schema_migration (
    version integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL,
    PRIMARY KEY (version, name));
  COMMENT ON TABLE workhorse.schema_migration IS
    'Migrations applied, and for each version the functions that belong to it.'`;

async function inTransaction<T>(client: SqlClient, body: () => Promise<T>): Promise<T> {
  await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
  try {
    // No object that someone else put into the session's path takes the place of a built-in one in what is created.
    await client.query("SET LOCAL search_path = pg_catalog, pg_temp");
    const result = await body();
    await client.query("COMMIT");
    return result;
  } catch (error) {
    // The connection may be gone; the first error is the one that says what went wrong.
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
}
