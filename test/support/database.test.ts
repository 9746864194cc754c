import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "./database";
import { removeRun } from "./leaks";
import { currentRun } from "./run";

describe("testDatabase", () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await testDatabase({ schema: false });
  });
  afterAll(() => database.drop());

  test("is a database of its own", async () => {
    const other = await testDatabase({ schema: false });
    try {
      await database.pool.query("CREATE TABLE mine (id int)");
      const { rows } = await other.pool.query("SELECT to_regclass('mine') AS found, current_database() AS name");
      expect(rows).toEqual([{ found: null, name: other.name }]);
    } finally {
      await other.drop();
    }
  });

  test("drop() takes connections, database and roles away, and can be repeated", async () => {
    const other = await testDatabase({ schema: false });
    const client = await other.connect();
    const leftOpen = await other.pool.connect();
    leftOpen.on("error", () => {});
    await client.query(`CREATE ROLE ${other.rolePrefix}_reader`);
    await client.query(`CREATE TABLE t (); GRANT SELECT ON t TO ${other.rolePrefix}_reader`);
    leftOpen.release();
    await other.drop();
    await other.drop();
    const left = await database.pool.query(
      `SELECT datname FROM pg_database WHERE datname = $1
       UNION ALL SELECT rolname FROM pg_roles WHERE starts_with(rolname, $2)`,
      [other.name, other.rolePrefix],
    );
    expect(left.rows).toEqual([]);
    await expect(client.query("SELECT 1")).rejects.toThrow();
  });

  test("what a run leaves behind is found by name and removed", async () => {
    const other = { id: "0fedcba9", url: currentRun().url };
    const client = await database.connect();
    await client.query(`CREATE ROLE wh_${other.id}_left`);
    await client.query(`CREATE DATABASE wh_${other.id}_left`);
    await client.query(`CREATE DATABASE wh_${other.id}_template`);
    expect(await removeRun(other)).toEqual([`database wh_${other.id}_left`, `role wh_${other.id}_left`]);
    expect(await removeRun(other)).toEqual([]);
  });

  test("has the Workhorse schema unless told otherwise, also when many are made at once", async () => {
    const made = await Promise.all(Array.from({ length: 4 }, () => testDatabase()));
    try {
      for (const { pool } of [...made, database]) {
        const { rows } = await pool.query("SELECT to_regclass('workhorse.rate_limit_policy') IS NOT NULL AS installed");
        expect(rows).toEqual([{ installed: pool !== database.pool }]);
      }
    } finally {
      await Promise.all(made.map((one) => one.drop()));
    }
  });

  test("a role's URL keeps special characters", async () => {
    const password = "p@ss/w:rd?#%";
    await database.pool.query(`CREATE ROLE "${database.rolePrefix}_x" LOGIN PASSWORD '${password}'`);
    const client: Client = await database.connect(database.urlFor(`${database.rolePrefix}_x`, password));
    const { rows } = await client.query("SELECT current_user AS name");
    expect(rows).toEqual([{ name: `${database.rolePrefix}_x` }]);
  });
});
