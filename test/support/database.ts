import { randomBytes } from "node:crypto";
import { Client, escapeIdentifier, Pool } from "pg";
import { currentRun, namePrefix, type TestRun, withDatabase } from "./run";
import { ensureTemplate, templateName } from "./template";

export interface TestDatabaseOptions {
  /** Whether the database has the Workhorse schema. Default: true. */
  readonly schema?: boolean;
}

/** A database of one test file. */
export interface TestDatabase {
  readonly name: string;
  /** The superuser's URL. */
  readonly url: string;
  /** Connections of the superuser, at most 20. */
  readonly pool: Pool;
  /** A prefix for roles, which are cluster-wide; `drop` removes those that have it. */
  readonly rolePrefix: string;
  /** A new connection, of the superuser unless a URL is given. Ended by `drop` at the latest. */
  connect(url?: string): Promise<Client>;
  /** The URL with another role's credentials. */
  urlFor(user: string, password: string): string;
  /** Ends all connections, removes the database and the roles. Calling it again is fine. */
  drop(): Promise<void>;
}

/**
 * Makes a database for the test file that calls it, by cloning the run's template. Call `drop` in `afterAll`:
 *
 * ```ts
 * let database: TestDatabase;
 * beforeAll(async () => { database = await testDatabase(); });
 * afterAll(() => database.drop());
 * ```
 */
export async function testDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const run = currentRun();
  const name = `${namePrefix(run)}${randomBytes(6).toString("hex")}`;
  await administer(run, async (client) => {
    const withSchema = options.schema ?? true;
    if (withSchema) {
      await ensureTemplate(client, run);
    }
    const template = withSchema ? templateName(run) : "template1";
    await client.query(`CREATE DATABASE ${escapeIdentifier(name)} TEMPLATE ${escapeIdentifier(template)}`);
  });
  return new ClonedDatabase(run, name);
}

/** A prefix for role names that nothing else on the server has. Drop the roles with `dropRoles`. */
export function testRolePrefix(): string {
  return `${namePrefix(currentRun())}${randomBytes(6).toString("hex")}`;
}

/** Drops the roles whose names have the prefix. The databases where they own things or hold rights must be gone. */
export async function dropRoles(prefix: string): Promise<void> {
  await administer(currentRun(), (client) => dropRolesBy(client, prefix));
}

class ClonedDatabase implements TestDatabase {
  readonly url: string;
  readonly pool: Pool;
  readonly rolePrefix: string;
  readonly #clients = new Set<Client>();
  #dropped: Promise<void> | undefined;

  constructor(
    private readonly run: TestRun,
    readonly name: string,
  ) {
    this.url = withDatabase(run.url, name);
    this.pool = new Pool({ connectionString: this.url, max: 20 });
    this.pool.on("error", () => {}); // an idle connection that a test had killed
    this.rolePrefix = `${name}_role`;
  }

  async connect(url = this.url): Promise<Client> {
    const client = new Client({ connectionString: url });
    client.on("error", () => {}); // tests kill connections; their queries reject all the same
    this.#clients.add(client);
    client.once("end", () => this.#clients.delete(client));
    await client.connect();
    return client;
  }

  urlFor(user: string, password: string): string {
    const url = new URL(this.url);
    url.username = encodeURIComponent(user);
    url.password = encodeURIComponent(password);
    return url.href;
  }

  drop(): Promise<void> {
    this.#dropped ??= this.#remove();
    return this.#dropped;
  }

  async #remove(): Promise<void> {
    await Promise.allSettled([...this.#clients].map((client) => client.end()));
    const unreleased = this.pool.totalCount - this.pool.idleCount;
    const ended = this.pool.ended ? Promise.resolve() : this.pool.end();
    await administer(this.run, async (client) => {
      await client.query(`DROP DATABASE IF EXISTS ${escapeIdentifier(this.name)} WITH (FORCE)`);
      await dropRolesBy(client, this.rolePrefix);
    });
    if (unreleased > 0) {
      throw new Error(`${unreleased} connections of the test database's pool were never released`); // ended never comes
    }
    await ended;
  }
}

async function dropRolesBy(client: Client, prefix: string): Promise<void> {
  const { rows } = await client.query<{ rolname: string }>(
    "SELECT rolname FROM pg_roles WHERE starts_with(rolname, $1)",
    [prefix],
  );
  for (const { rolname } of rows) {
    await client.query(`DROP ROLE ${escapeIdentifier(rolname)}`);
  }
}

async function administer<T>(run: TestRun, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: run.url });
  client.on("error", () => {}); // what it was doing rejects all the same
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
