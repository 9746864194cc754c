import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { describeSchema } from "./support/describe-schema";

const golden = join(__dirname, "schema.golden.txt");
const rewriting = process.env.WORKHORSE_REWRITE_GOLDEN === "1";
const command = "WORKHORSE_REWRITE_GOLDEN=1 npm test -- sql/test/schema.golden";

let database: TestDatabase;
let client: Client;
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
  await client.query("SELECT workhorse.create_roles_v1($1)", [database.rolePrefix]);
});
afterAll(() => database.drop());

const describeNow = () => describeSchema(client, database.rolePrefix);

test(`the schema is the one of schema.golden.txt; if you meant to change it: ${command}`, async () => {
  const found = await describeNow();
  if (rewriting) await writeFile(golden, found);
  expect(found).toBe(await readFile(golden, "utf8"));
});

test.each([
  ["a column", "ALTER TABLE workhorse.job ADD COLUMN extra int"],
  ["a type", "ALTER TABLE workhorse.job ALTER COLUMN retry_rule TYPE varchar(9)"],
  ["a default", "ALTER TABLE workhorse.job ALTER COLUMN max_attempts SET DEFAULT 24"],
  ["NOT NULL", "ALTER TABLE workhorse.job ALTER COLUMN worker_id SET NOT NULL"],
  ["a collation", 'ALTER TABLE workhorse.job ALTER COLUMN type TYPE text COLLATE "C"'],
  ["a constraint", "ALTER TABLE workhorse.back_off DROP CONSTRAINT back_off_queue_name_check"],
  ["an index", "DROP INDEX workhorse.job_due_idx"],
  ["storage", "ALTER TABLE workhorse.lane SET (fillfactor = 71)"],
  [
    "a trigger",
    "CREATE TRIGGER t BEFORE UPDATE ON workhorse.job FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
  ],
  ["an enum", "ALTER TYPE workhorse.job_state ADD VALUE 'lost'"],
  ["a composite type", "ALTER TYPE workhorse.claimed ADD ATTRIBUTE extra int"],
  [
    "a function's body",
    "CREATE OR REPLACE FUNCTION workhorse.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS 'SELECT now()'",
  ],
  [
    "a function's default",
    "CREATE OR REPLACE FUNCTION workhorse.clock(p int DEFAULT 1) RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
  ],
  ["volatility", "ALTER FUNCTION workhorse.clock() STABLE"],
  ["whose rights it runs with", "ALTER FUNCTION workhorse.clock() SECURITY DEFINER"],
  ["a function's setting", "ALTER FUNCTION workhorse.claim_v1(text, text, int, int) RESET search_path"],
  ["a comment", "COMMENT ON COLUMN workhorse.job.attempt IS 'other'"],
  ["a grant", "GRANT EXECUTE ON FUNCTION workhorse.clock() TO PUBLIC"],
  ["a grant of a column", "GRANT UPDATE (id) ON workhorse.job TO PUBLIC"],
])("the description shows a change of %s", async (_, text) => {
  const before = await describeNow();
  await client.query("BEGIN");
  await client.query(text);
  const after = await describeNow();
  await client.query("ROLLBACK");
  expect(after).not.toBe(before);
  expect(await describeNow()).toBe(before);
});
