import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import {
  installedVersion,
  installSchema,
  requireVersion,
  SchemaError,
  type SqlClient,
  schemaVersion,
} from "@workhorse/sql";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { claim, enqueue, rows, syncRateLimits } from "./support/calls";
import { errorOf } from "./support/refusal";
import { backendOf, untilWaiting } from "./support/sessions";

/** All that is in the schema: relations, functions with their texts, types, ledger. */
async function contents(client: Client): Promise<unknown> {
  const parts = await rows(
    client,
    `SELECT c.relname || ' ' || c.relkind::text AS part FROM pg_class AS c
     WHERE c.relnamespace = to_regnamespace('workhorse')
     UNION ALL
     SELECT p.oid::regprocedure || ' ' || md5(p.prosrc) || ' ' || coalesce(p.proacl::text, 'default') FROM pg_proc AS p
     WHERE p.pronamespace = to_regnamespace('workhorse')
     UNION ALL
     SELECT t.typname || ' ' || t.typtype::text FROM pg_type AS t WHERE t.typnamespace = to_regnamespace('workhorse')
     ORDER BY 1`,
  );
  const [{ exists }] = (await rows(
    client,
    "SELECT to_regclass('workhorse.schema_migration') IS NOT NULL AS exists",
  )) as [{ exists: boolean }];
  const ledger = exists ? await rows(client, "SELECT m::text FROM workhorse.schema_migration AS m ORDER BY 1") : [];
  return { parts: parts.map(({ part }) => part), ledger };
}

const nothing = { parts: [], ledger: [] };

/** A database without the schema for one test. */
async function withEmptyDatabase(work: (database: TestDatabase, client: Client) => Promise<void>): Promise<void> {
  const database = await testDatabase({ schema: false });
  try {
    await work(database, await database.connect());
  } finally {
    await database.drop();
  }
}

async function schemaErrorOf(call: Promise<unknown>): Promise<SchemaError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(SchemaError);
  return error as SchemaError;
}

describe("a fresh install", () => {
  let database: TestDatabase;
  let client: Client;
  beforeAll(async () => {
    database = await testDatabase({ schema: false });
    client = await database.connect();
  });
  afterAll(() => database.drop());

  test("says what it did, writes the ledger, and a second run does nothing", async () => {
    expect(await installedVersion(client)).toBeNull();
    const before = Date.now();
    const installation = await installSchema(client);
    expect(installation).toEqual({
      from: null,
      to: schemaVersion,
      applied: [
        { version: 1000, name: "tables" },
        { version: 1000, name: "functions" },
      ],
    });
    expect(await installedVersion(client)).toBe(schemaVersion);
    const ledger = await rows(client, "SELECT * FROM workhorse.schema_migration ORDER BY version, name");
    expect(ledger).toEqual([
      {
        version: 1000,
        name: "functions",
        checksum: expect.stringMatching(/^[0-9a-f]{64}$/),
        applied_at: expect.any(Date),
      },
      {
        version: 1000,
        name: "tables",
        checksum: expect.stringMatching(/^[0-9a-f]{64}$/),
        applied_at: expect.any(Date),
      },
    ]);
    for (const { applied_at } of ledger) expect(Math.abs(applied_at.getTime() - before)).toBeLessThan(600_000);

    const installed = await contents(client);
    expect(await installSchema(client)).toEqual({ from: schemaVersion, to: schemaVersion, applied: [] });
    expect(await contents(client)).toEqual(installed);
  });

  test("functions whose text changed since are brought up to date, and their rights stay", async () => {
    const installed = (await contents(client)) as { parts: string[] };
    await client.query(
      "CREATE OR REPLACE FUNCTION workhorse.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
    );
    await client.query("UPDATE workhorse.schema_migration SET checksum = 'older' WHERE name = 'functions'");
    expect((await installSchema(client)).applied).toEqual([{ version: schemaVersion, name: "functions" }]);
    expect(((await contents(client)) as { parts: string[] }).parts).toEqual(installed.parts);
  });
});

test("twenty installers at once on one empty database: one does the work, all succeed", async () => {
  await withEmptyDatabase(async (database) => {
    const clients = await Promise.all(Array.from({ length: 20 }, () => database.connect()));
    const installations = await Promise.all(clients.map((client) => installSchema(client)));
    expect(installations.map(({ to }) => to)).toEqual(Array(20).fill(schemaVersion));
    const worked = installations.filter(({ applied }) => applied.length > 0);
    expect(worked).toHaveLength(1);
    expect(worked[0]!.from).toBeNull();
    expect(installations.filter(({ from }) => from === schemaVersion)).toHaveLength(19);

    const alone = await testDatabase();
    try {
      const { parts } = (await contents(await alone.connect())) as { parts: string[] };
      const found = (await contents(clients[0]!)) as { parts: string[]; ledger: unknown[] };
      expect(found.parts).toEqual(parts);
      expect(found.ledger).toHaveLength(2);
    } finally {
      await alone.drop();
    }
  });
});

describe("what must be refused", () => {
  test.each([
    ["with a table of its own", "CREATE TABLE workhorse.mine (id int)"],
    ["with nothing in it", "SELECT"],
    ["with another ledger", "CREATE TABLE workhorse.schema_migration (version int, name text)"],
  ])("a schema named workhorse that something else made, %s: nothing changes", async (_, text) => {
    await withEmptyDatabase(async (_database, client) => {
      await client.query(`CREATE SCHEMA workhorse`);
      await client.query(text);
      const before = await rows(client, "SELECT relname FROM pg_class WHERE relnamespace = 'workhorse'::regnamespace");
      const error = await schemaErrorOf(installSchema(client));
      expect(error).toMatchObject({ problem: "foreign", code: "WH003" });
      expect(error.message).toMatch(/something else made.*Rename or drop/s);
      const after = await rows(client, "SELECT relname FROM pg_class WHERE relnamespace = 'workhorse'::regnamespace");
      expect(after).toEqual(before);
      expect((await client.query("SELECT 1")).rowCount).toBe(1); // and the connection is fit for use
      expect((await schemaErrorOf(installedVersion(client))).problem).toBe("foreign");
    });
  });

  test("a newer major, with found, required and what to do: nothing changes", async () => {
    const database = await testDatabase();
    try {
      const client = await database.connect();
      await client.query("INSERT INTO workhorse.schema_migration VALUES (2003, 'next', 'checksum', now())");
      await client.query("UPDATE workhorse.schema_migration SET checksum = 'theirs' WHERE name = 'functions'");
      const before = await contents(client);
      const error = await schemaErrorOf(installSchema(client));
      expect(error).toMatchObject({ problem: "incompatible", code: "WH003" });
      expect(error.message).toMatch(/Found: 2\.3; required: 1\.x\. Upgrade the @workhorse packages/);
      expect(await contents(client)).toEqual(before);
    } finally {
      await database.drop();
    }
  });

  test("a migration that was edited after it was applied", async () => {
    const database = await testDatabase();
    try {
      const client = await database.connect();
      await client.query("UPDATE workhorse.schema_migration SET checksum = repeat('ab', 32) WHERE name = 'tables'");
      const before = await contents(client);
      const error = await schemaErrorOf(installSchema(client));
      expect(error).toMatchObject({ problem: "incompatible", code: "WH003" });
      expect(error.message).toMatch(
        /migration 1000 \(tables\).*Found: checksum abababababab; required: [0-9a-f]{12}\. Use/,
      );
      expect(await contents(client)).toEqual(before);
    } finally {
      await database.drop();
    }
  });

  test.each([
    [
      "the tables' row is missing",
      "WHERE name = 'tables'",
      /lacks migration 1000 \(tables\)\. Found: version 1\.0 without it/,
    ],
    ["all rows are missing", "", /ledger workhorse\.schema_migration is empty/],
  ])("a ledger that was tampered with: %s", async (_, where, message) => {
    const database = await testDatabase();
    try {
      const client = await database.connect();
      await client.query(`DELETE FROM workhorse.schema_migration ${where}`);
      const before = await contents(client);
      const error = await schemaErrorOf(installSchema(client));
      expect(error).toMatchObject({ problem: "incompatible", code: "WH003" });
      expect(error.message).toMatch(message);
      expect(error.message).toMatch(/Restore the ledger's rows/);
      expect(await contents(client)).toEqual(before);
    } finally {
      await database.drop();
    }
  });

  test("a connection inside a transaction, which stays usable", async () => {
    await withEmptyDatabase(async (_database, client) => {
      await client.query("BEGIN");
      await expect(installSchema(client)).rejects.toThrow(/inside a transaction.*Commit first/s);
      await client.query("CREATE TABLE public.mine ()");
      await client.query("COMMIT");
      expect(await contents(client)).toEqual(nothing);
      expect(await rows(client, "SELECT FROM public.mine")).toEqual([]);
    });
  });

  test("a PostgreSQL older than 15", async () => {
    await withEmptyDatabase(async (_database, client) => {
      const older: SqlClient = {
        query: async (text, values) => {
          const { rows } = await client.query(text, values);
          return { rows: rows.map((row) => ("server" in row ? { ...row, server: 140_012, shown: "14.12" } : row)) };
        },
      };
      const error = await schemaErrorOf(installSchema(older));
      expect(error.message).toMatch(/Found: 14\.12; required: 15 or newer/);
      expect(await contents(client)).toEqual(nothing);
    });
  });

  test("a role without rights: PostgreSQL's own words, nothing half-installed", async () => {
    await withEmptyDatabase(async (database, client) => {
      const role = `${database.rolePrefix}_nobody`;
      await client.query(`CREATE ROLE "${role}" LOGIN PASSWORD 'pass'`);
      const stranger = await database.connect(database.urlFor(role, "pass"));
      expect(await errorOf(installSchema(stranger))).toMatchObject({
        code: "42501",
        message: expect.stringMatching(/permission denied for database/),
      });
      expect(await contents(client)).toEqual(nothing);

      await installSchema(client);
      const installed = await contents(client);
      await client.query("UPDATE workhorse.schema_migration SET checksum = 'older' WHERE name = 'functions'");
      expect(await errorOf(installSchema(stranger))).toMatchObject({ code: "42501" });
      await client.query(
        "GRANT USAGE ON SCHEMA workhorse TO PUBLIC; GRANT SELECT ON workhorse.schema_migration TO PUBLIC",
      );
      expect(await errorOf(installSchema(stranger))).toMatchObject({ code: "42501" });
      expect(((await contents(client)) as { parts: string[] }).parts).toEqual((installed as { parts: string[] }).parts);
    });
  });
});

test("a newer minor version is left alone: an older package does not undo its functions", async () => {
  const database = await testDatabase();
  try {
    const client = await database.connect();
    await client.query(`INSERT INTO workhorse.schema_migration VALUES (1001, 'next', 'c', now()), (1001, 'functions', 'c', now());
      DELETE FROM workhorse.schema_migration WHERE (version, name) = (1000, 'functions');
      CREATE OR REPLACE FUNCTION workhorse.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()';`);
    const before = await contents(client);
    expect(await installSchema(client)).toEqual({ from: 1001, to: 1001, applied: [] });
    expect(await contents(client)).toEqual(before);
    // Also when that package upgraded an installation of ours.
    await client.query("INSERT INTO workhorse.schema_migration VALUES (1000, 'functions', 'other', now())");
    expect(await installSchema(client)).toEqual({ from: 1001, to: 1001, applied: [] });
    expect(await rows(client, "SELECT prosrc FROM pg_proc WHERE oid = 'workhorse.clock()'::regprocedure")).toEqual([
      { prosrc: "SELECT now()" },
    ]);
    expect(() => requireVersion(1001)).not.toThrow();
  } finally {
    await database.drop();
  }
});

test("requireVersion tells missing, older and newer apart, each with what to do", () => {
  expect(() => requireVersion(schemaVersion)).not.toThrow();
  const errorFor = (found: number | null) => {
    try {
      requireVersion(found);
    } catch (error) {
      return error;
    }
    return undefined;
  };
  expect(errorFor(null)).toMatchObject({
    problem: "missing",
    message: expect.stringMatching(/Found: none; required: 1\.0\. Install it with installSchema.*workhorse_schema/),
  });
  expect(errorFor(999)).toMatchObject({
    problem: "incompatible",
    message: expect.stringMatching(/Found: 0\.999; required: 1\.0 or newer\. Upgrade it/),
  });
  expect(errorFor(2000)).toMatchObject({
    problem: "incompatible",
    message: expect.stringMatching(/Found: 2\.0; required: 1\.x\. Upgrade the @workhorse packages/),
  });
});

describe("an interrupted install", () => {
  test("killed before any of its statements leaves nothing, and the next one succeeds", async () => {
    await withEmptyDatabase(async (database, observer) => {
      for (let fatal = 1; ; fatal++) {
        const victim = await database.connect();
        const pid = await backendOf(victim);
        let statements = 0;
        const mortal: SqlClient = {
          query: async (text, values) => {
            statements += 1;
            if (statements === fatal) await observer.query("SELECT pg_terminate_backend($1, 30000)", [pid]);
            return victim.query(text, values);
          },
        };
        const outcome = await installSchema(mortal).then(
          () => "installed",
          () => "interrupted",
        );
        if (outcome === "installed") {
          // It ended before it could be killed; all statements before were deadly and left nothing.
          expect(fatal).toBeGreaterThan(10);
          break;
        }
        expect(await contents(observer)).toEqual(nothing);
      }
      expect(await installedVersion(observer)).toBe(schemaVersion);
      expect(await installSchema(observer)).toEqual({ from: schemaVersion, to: schemaVersion, applied: [] });
    });
  });

  test("killed while it waits for another installer: that one goes on", async () => {
    await withEmptyDatabase(async (database, observer) => {
      const [first, second] = [await database.connect(), await database.connect()];
      const pid = await backendOf(second);
      await first.query("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('workhorse:install', 0))");
      const waiting = installSchema(second).then(
        () => "installed",
        () => "interrupted",
      );
      await untilWaiting(observer, [pid]);
      await observer.query("SELECT pg_terminate_backend($1, 30000)", [pid]);
      expect(await waiting).toBe("interrupted");
      await first.query("ROLLBACK");
      expect(await contents(observer)).toEqual(nothing);
      expect((await installSchema(first)).applied).toHaveLength(2);
    });
  });
});

test("a plain role that may create schemas in the database installs it, and all of it works", async () => {
  await withEmptyDatabase(async (database, client) => {
    const role = `${database.rolePrefix}_owner`;
    await client.query(
      `CREATE ROLE "${role}" LOGIN PASSWORD 'pass'; GRANT CREATE ON DATABASE "${database.name}" TO "${role}"`,
    );
    const owner = await database.connect(database.urlFor(role, "pass"));
    await installSchema(owner);
    const rate = { limit: 1, intervalMs: 60_000, burst: 1 };
    await syncRateLimits(owner, "n", [{ queue: "q", rate: { ...rate, burst: 5 }, perKey: rate }]);
    const ids = await enqueue(owner, { queue: "q", concurrencyKey: "a" }, { queue: "q", concurrencyKey: "a" });
    const { jobs, answer } = await claim(owner, "q", { most: 2 });
    expect(jobs.map(({ id }) => id)).toEqual([ids[0]]);
    expect(answer!.reason).toBe("key_tokens");
  });
});

test("what others put into the session's path takes no part in what is created, and the path stays", async () => {
  await withEmptyDatabase(async (_database, client) => {
    // Of two candidates PostgreSQL prefers the one whose argument types fit exactly, also to a built-in one.
    await client.query(`
      CREATE FUNCTION public.num_nulls(integer, integer, integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 0';
      SET search_path = public, pg_catalog`);
    await installSchema(client);
    const found = await rows(
      client,
      `SELECT d.classid::regclass::text, d.objid FROM pg_depend AS d
       WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = 'public.num_nulls(integer,integer,integer)'::regprocedure`,
    );
    expect(found).toEqual([]);
    expect(await rows(client, "SHOW search_path")).toEqual([{ search_path: "public, pg_catalog" }]);
  });
});
