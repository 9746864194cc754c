import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { installSchema, SchemaError, schemaVersion } from "@workhorse/sql";
import { type TestDatabase, testDatabase } from "../../../test/support/database";
import { Queue } from "./queue";
import { SchemaCheck } from "./schema-check";

describe("the check of the schema's version", () => {
  let empty: TestDatabase;
  let installed: TestDatabase;
  beforeAll(async () => {
    [empty, installed] = await Promise.all([testDatabase({ schema: false }), testDatabase()]);
  });
  afterAll(() => Promise.all([empty.drop(), installed.drop()]));

  test("a missing schema is an error that says what installs it, and is not remembered", async () => {
    const queue = new Queue(empty.pool);
    const error = await queue.enqueue("a").catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(SchemaError);
    expect(error).toMatchObject({
      problem: "missing",
      code: "WH003",
      message: expect.stringContaining("installSchema"),
    });
    expect((error as Error).message).toContain("workhorse_schema");
    for (const call of [queue.listRateLimitPolicies(), queue.syncConcurrencyPolicies("n", [])]) {
      await expect(call).rejects.toMatchObject({
        problem: "missing",
        message: expect.stringContaining("workhorse_schema"),
      });
    }
    const client = await empty.connect();
    await installSchema(client);
    await client.end();
    await expect(queue.enqueue("a")).resolves.toMatch(/^\d+$/);
  });

  test("a newer major, and an older version, are refused with found and required", async () => {
    const client = await installed.connect();
    const lift = (by: number) => client.query("UPDATE workhorse.schema_migration SET version = version + $1", [by]);
    const major = Math.floor(schemaVersion / 1000);
    await lift(1000);
    await expect(new Queue(installed.pool).health()).rejects.toMatchObject({
      problem: "incompatible",
      message: expect.stringMatching(new RegExp(`Found: ${major + 1}\\.\\d+; required: ${major}`)),
    });
    await lift(-1001);
    await expect(new Queue(installed.pool).health()).rejects.toMatchObject({ problem: "incompatible" });
    await lift(2);
    await expect(new Queue(installed.pool).health()).resolves.toBeDefined(); // a newer minor
    await lift(-1);
  });

  test("is made once, shared by concurrent calls", async () => {
    const texts: string[] = [];
    const counting = {
      query(text: string, values?: unknown[]) {
        texts.push(text);
        return installed.pool.query(text, values);
      },
    };
    const queue = new Queue(counting);
    await Promise.all([queue.enqueue("a"), queue.enqueue("a"), queue.enqueue("a")]);
    await queue.enqueue("a");
    expect(texts.filter((text) => text.includes("schema_migration"))).toHaveLength(2);
    expect(texts.filter((text) => text.includes("enqueue_v1"))).toHaveLength(4);
  });

  test("another caller's broken connection is not this caller's error", async () => {
    const check = new SchemaCheck();
    const broken = { query: () => Promise.reject(new Error("broken")) };
    const [first, second] = await Promise.allSettled([check.ensure(broken), check.ensure(installed.pool)]);
    expect(first).toMatchObject({ status: "rejected", reason: { message: "broken" } });
    expect(second).toMatchObject({ status: "fulfilled" });
  });

  test("runs on the call's own executor, so that a pool of one is enough inside a transaction", async () => {
    const never = { query: () => Promise.reject(new Error("asked for a second connection")) };
    const executor = await installed.connect();
    await expect(new Queue(never).enqueue("a", null, { executor })).resolves.toMatch(/^\d+$/);
    await executor.end();
  });
});
