import { Client, escapeIdentifier } from "pg";
import { namePrefix, type TestRun } from "./run";
import { templateName } from "./template";

/**
 * Removes everything a run has on the server, and returns what should not have been there any more: all but the
 * template.
 */
export async function removeRun(run: TestRun): Promise<string[]> {
  const client = new Client({ connectionString: run.url });
  await client.connect();
  try {
    const found = await client.query<{ kind: string; name: string }>(
      `SELECT 'database' AS kind, datname AS name FROM pg_database WHERE starts_with(datname, $1)
       UNION ALL
       SELECT 'role', rolname FROM pg_roles WHERE starts_with(rolname, $1)
       ORDER BY 1, 2`,
      [namePrefix(run)],
    );
    for (const { kind, name } of found.rows) {
      await client.query(`DROP ${kind} ${escapeIdentifier(name)}${kind === "database" ? " WITH (FORCE)" : ""}`);
    }
    return found.rows
      .filter(({ name }) => !name.startsWith(templateName(run)))
      .map(({ kind, name }) => `${kind} ${name}`);
  } finally {
    await client.end();
  }
}
