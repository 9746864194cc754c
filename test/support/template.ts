import { Client, escapeIdentifier } from "pg";
import { namePrefix, type TestRun, withDatabase } from "./run";

/** The database with the Workhorse schema that the run's other databases are cloned from. */
export function templateName(run: TestRun): string {
  return `${namePrefix(run)}template`;
}

/**
 * Makes the run's template unless it is there. Jest's workers may all call this at once: one makes it, the others wait.
 *
 * @param client A superuser's connection; its session lock is held meanwhile.
 */
export async function ensureTemplate(client: Client, run: TestRun): Promise<void> {
  const template = templateName(run);
  const lock = [`workhorse-tests:${template}`];
  await client.query("SELECT pg_advisory_lock(hashtextextended($1, 0))", lock);
  try {
    // Only a finished template gets the name, so one that failed to install is not taken for one.
    const { rowCount } = await client.query("SELECT FROM pg_database WHERE datname = $1", [template]);
    if (rowCount === 0) {
      const draft = `${template}_draft`;
      await client.query(`DROP DATABASE IF EXISTS ${escapeIdentifier(draft)} WITH (FORCE)`);
      await client.query(`CREATE DATABASE ${escapeIdentifier(draft)}`);
      await install(withDatabase(run.url, draft));
      await client.query(`ALTER DATABASE ${escapeIdentifier(draft)} RENAME TO ${escapeIdentifier(template)}`);
    }
  } finally {
    await client.query("SELECT pg_advisory_unlock(hashtextextended($1, 0))", lock);
  }
}

async function install(url: string): Promise<void> {
  const { installSchema } = await import("@workhorse/sql"); // not at the top: tests without a schema do without the SQL
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await installSchema(client);
  } finally {
    await client.end();
  }
}
