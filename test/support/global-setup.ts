import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { type PostgresServer, parsePostgresMajor, startPostgres } from "../../tools/src/postgres";
import { announceRun } from "./run";
import { type TemporaryFolder, useTemporaryFolder } from "./temporary-folder";

declare global {
  /** What the teardown ends. Jest has no other place where a setup can leave something for its teardown. */
  var workhorseTestRun: { readonly temporary: TemporaryFolder; readonly server: PostgresServer | undefined };
}

/**
 * Gives the run a temporary folder, which os.tmpdir() is from here on, and a PostgreSQL: the one of
 * WORKHORSE_TEST_DATABASE_URL, or an embedded one of its own.
 */
export default async function globalSetup(): Promise<void> {
  const id = randomBytes(4).toString("hex");
  const external = process.env.WORKHORSE_TEST_DATABASE_URL;
  const major = parsePostgresMajor(process.env.WORKHORSE_TEST_POSTGRES_MAJOR, "WORKHORSE_TEST_POSTGRES_MAJOR");
  if (external) {
    await checkServer(external);
  }
  const temporary = await useTemporaryFolder();
  const server = external ? undefined : await startPostgres({ major });
  globalThis.workhorseTestRun = { temporary, server };
  announceRun({ id, url: server?.url ?? external! });
}

async function checkServer(url: string): Promise<void> {
  const origin = "WORKHORSE_TEST_DATABASE_URL";
  if (!URL.canParse(url)) {
    throw new Error(`${origin} is not a URL; accepted is a superuser's: postgres://user:password@host:port/database`);
  }
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  try {
    await client.connect();
    const { rows } = await client.query<{ superuser: string }>("SELECT current_setting('is_superuser') AS superuser");
    if (rows[0]?.superuser !== "on") {
      throw new Error("its role is no superuser, which the tests of roles need");
    }
  } catch (error) {
    const { host, pathname } = new URL(url);
    throw new Error(`${origin} (${host}${pathname}): ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    await client.end().catch(() => {});
  }
}
