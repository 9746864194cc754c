import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import { type TestDatabase, testDatabase } from "../../../../test/support/database";
import { InvalidDefinitionError, IsolationLevelError, OwnershipConflictError, RefusedError } from "../errors";
import { Queue } from "../queue";

const rate = { limit: 60, intervalMs: 60_000, burst: 10 };
const perKey = { limit: 5, intervalMs: 60_000, burst: 2 };

let database: TestDatabase;
let queue: Queue;
beforeAll(async () => {
  database = await testDatabase();
  queue = new Queue(database.pool);
});
afterAll(() => database.drop());
beforeEach(async () => {
  for (const namespace of ["a", "b"]) {
    await queue.syncRateLimitPolicies(namespace, []);
    await queue.syncConcurrencyPolicies(namespace, []);
  }
});

describe("syncs", () => {
  test("write, prune and return the namespace's rate-limit policies", async () => {
    const written = await queue.syncRateLimitPolicies("a", [
      { queue: "y", rate },
      { queue: "x", rate, perKey },
    ]);
    expect(written).toEqual([
      { namespace: "a", queue: "x", rate, perKey, updatedAt: expect.any(Date) },
      { namespace: "a", queue: "y", rate, perKey: null, updatedAt: expect.any(Date) },
    ]);
    const kept = await queue.syncRateLimitPolicies("a", [{ queue: "z", rate }], { prune: false });
    expect(kept.map((policy) => policy.queue)).toEqual(["x", "y", "z"]);
    expect(await queue.syncRateLimitPolicies("a", [{ queue: "z", rate, perKey: null }])).toEqual([kept[2]]);
  });

  test("write, prune and return the namespace's concurrency policies", async () => {
    const written = await queue.syncConcurrencyPolicies("a", [
      { queue: "y", maxActive: 5 },
      { queue: "x", maxActive: 5, maxActivePerKey: 5 },
    ]);
    expect(written).toEqual([
      { namespace: "a", queue: "x", maxActive: 5, maxActivePerKey: 5, updatedAt: expect.any(Date) },
      { namespace: "a", queue: "y", maxActive: 5, maxActivePerKey: null, updatedAt: expect.any(Date) },
    ]);
    expect(await queue.syncConcurrencyPolicies("a", [])).toEqual([]);
  });

  test("lists take queues and a namespace", async () => {
    await queue.syncRateLimitPolicies("a", [
      { queue: "x", rate },
      { queue: "y", rate },
    ]);
    await queue.syncRateLimitPolicies("b", [{ queue: "w", rate }]);
    const names = async (...args: Parameters<Queue["listRateLimitPolicies"]>) =>
      (await queue.listRateLimitPolicies(...args)).map((policy) => policy.queue);
    expect(await names()).toEqual(["w", "x", "y"]);
    expect(await names(["y", "w", "nothing"])).toEqual(["w", "y"]);
    expect(await names([])).toEqual([]);
    expect(await names(undefined, { namespace: "a" })).toEqual(["x", "y"]);
    expect(await names(["w", "x"], { namespace: "a" })).toEqual(["x"]);
    expect(await queue.listConcurrencyPolicies()).toEqual([]);
  });

  test("a queue of another namespace is a conflict that names it, and nothing is written", async () => {
    await queue.syncRateLimitPolicies("b", [{ queue: "x", rate }]);
    const error = await queue
      .syncRateLimitPolicies("a", [
        { queue: "w", rate },
        { queue: "x", rate },
      ])
      .catch((e) => e);
    expect(error).toBeInstanceOf(OwnershipConflictError);
    expect(error).toMatchObject({ code: "WH001", namespace: "a", queue: "x", owner: "b", cause: { code: "WH001" } });
    expect(await queue.listRateLimitPolicies(undefined, { namespace: "a" })).toEqual([]);
  });

  test("join the caller's transaction", async () => {
    const executor = await database.connect();
    await executor.query("BEGIN");
    await queue.syncRateLimitPolicies("a", [{ queue: "x", rate }], { executor });
    expect(await queue.listRateLimitPolicies(undefined, { executor })).toHaveLength(1);
    expect(await queue.listRateLimitPolicies()).toEqual([]);
    await executor.query("ROLLBACK");
    expect(await queue.listRateLimitPolicies()).toEqual([]);
    await executor.end();
  });

  test("the lock makes other syncs wait until the transaction ends", async () => {
    const executor = await database.connect();
    await executor.query("BEGIN");
    await queue.lockConcurrencyPolicies(executor);
    const blocked = await database.connect();
    await blocked.query("SET lock_timeout = '100ms'");
    const sync = () => queue.syncConcurrencyPolicies("a", [{ queue: "x", maxActive: 1 }], { executor: blocked });
    await expect(sync()).rejects.toMatchObject({ code: "55P03" });
    await queue.syncRateLimitPolicies("a", [{ queue: "x", rate }], { executor: blocked }); // the other kind goes on
    await executor.query("COMMIT");
    await expect(sync()).resolves.toHaveLength(1);
    await Promise.all([executor.end(), blocked.end()]);
  });

  test("refuse other isolation levels", async () => {
    const executor = await database.connect();
    await executor.query("BEGIN ISOLATION LEVEL SERIALIZABLE");
    await expect(queue.syncRateLimitPolicies("a", [], { executor })).rejects.toThrow(IsolationLevelError);
    await executor.query("ROLLBACK");
    await executor.end();
  });
});

describe("a database of other installers", () => {
  let foreign: TestDatabase;
  beforeAll(async () => {
    foreign = await testDatabase({ schema: false });
    // Just the four objects: columns in another order and one more, plain errors.
    await foreign.pool.query(`
      CREATE SCHEMA workhorse;
      CREATE TABLE workhorse.rate_limit_policy (namespace text, extra int, updated_at timestamptz, queue_name text PRIMARY KEY,
        rate_burst int, rate_limit int, rate_interval_ms int, per_key_burst int, per_key_limit int, per_key_interval_ms int);
      CREATE FUNCTION workhorse.sync_rate_limit_policies_v1(a text, b jsonb, c boolean DEFAULT true)
      RETURNS SETOF workhorse.rate_limit_policy LANGUAGE plpgsql AS $$
      BEGIN
        IF a = 'taken' THEN RAISE EXCEPTION 'owned by somebody'; END IF;
        INSERT INTO workhorse.rate_limit_policy
        SELECT a, 1, now(), d ->> 'queue', (d #>> '{rate,burst}')::int, (d #>> '{rate,limit}')::int,
          (d #>> '{rate,intervalMs}')::int FROM jsonb_array_elements(b) AS d;
        RETURN QUERY SELECT * FROM workhorse.rate_limit_policy;
      END $$;`);
  });
  afterAll(() => foreign.drop());

  test("serves the policy methods, without any other object", async () => {
    const other = new Queue(foreign.pool);
    const expected = [{ namespace: "n", queue: "x", rate, perKey: null, updatedAt: expect.any(Date) }];
    expect(await other.syncRateLimitPolicies("n", [{ queue: "x", rate }])).toEqual(expected);
    expect(await other.listRateLimitPolicies()).toEqual(expected);
  });

  test("plain errors keep their text", async () => {
    const call = new Queue(foreign.pool).syncRateLimitPolicies("taken", []);
    await expect(call).rejects.toThrow(RefusedError);
    await expect(call).rejects.toMatchObject({ code: "P0001", message: "owned by somebody." });
  });
});

describe("what is refused before anything is sent", () => {
  const offline = new Queue({ query: () => Promise.reject(new Error("was sent")) });
  const rates = (definition: unknown) => offline.syncRateLimitPolicies("n", [definition as never]);
  const caps = (definition: unknown) => offline.syncConcurrencyPolicies("n", [definition as never]);

  async function refused(call: Promise<unknown>): Promise<InvalidDefinitionError> {
    const error = await call.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InvalidDefinitionError);
    return error as InvalidDefinitionError;
  }

  test.each([0, -1, 1.5, 1e7, null, "5", Number.NaN, undefined, 5n])("numbers such as %p", async (value) => {
    const got = typeof value === "string" ? JSON.stringify(value) : expect.any(String);
    for (const name of ["limit", "burst"] as const) {
      const accepted = "an integer from 1 to 1,000,000";
      const first = await refused(rates({ queue: "x", rate: { ...rate, [name]: value } }));
      expect(first).toMatchObject({
        path: `definitions[0].rate.${name}`,
        got,
        accepted,
        queue: "x",
        namespace: "n",
        index: 0,
      });
      expect(first.message).toContain(`definitions[0].rate.${name}`);
      expect(await refused(rates({ queue: "x", rate, perKey: { ...perKey, [name]: value } }))).toMatchObject({
        path: `definitions[0].perKey.${name}`,
      });
    }
    expect(await refused(caps({ queue: "x", maxActive: value }))).toMatchObject({ path: "definitions[0].maxActive" });
    if (value !== null && value !== undefined) {
      expect(await refused(caps({ queue: "x", maxActive: 9, maxActivePerKey: value }))).toMatchObject({
        path: "definitions[0].maxActivePerKey",
      });
    }
  });

  test("an interval longer than a day", async () => {
    const error = await refused(rates({ queue: "x", rate: { ...rate, intervalMs: 86_400_001 } }));
    expect(error).toMatchObject({ got: "86400001", accepted: "an integer from 1 to 86,400,000" });
  });

  test("maxActivePerKey above maxActive", async () => {
    expect(await refused(caps({ queue: "x", maxActive: 5, maxActivePerKey: 6 }))).toMatchObject({
      path: "definitions[0].maxActivePerKey",
      accepted: "an integer from 1 to maxActive, which is 5",
    });
  });

  test("unknown fields, with the near one", async () => {
    const error = await refused(rates({ queue: "x", rate: { ...rate, interval_ms: 1 } }));
    expect(error).toMatchObject({
      path: "definitions[0].rate.interval_ms",
      accepted: expect.stringContaining("intervalMs (did"),
    });
    expect(await refused(caps({ queue: "x", maxActive: 1, rate }))).toMatchObject({ path: "definitions[0].rate" });
  });

  test("a queue twice", async () => {
    const call = offline.syncRateLimitPolicies("n", [
      { queue: "x", rate },
      { queue: "y", rate },
      { queue: "x", rate },
    ]);
    expect(await refused(call)).toMatchObject({ path: "definitions[2].queue", queue: "x", index: 2 });
  });

  test.each([
    ["", "empty"],
    ["x".repeat(257), "too long"],
    ["é".repeat(129), "too long"],
    ["a\0b", "NUL"],
    [7, "7"],
    [null, "null"],
  ])("the name %j", async (name, got) => {
    const expected = { got: expect.stringContaining(got) };
    expect(await refused(rates({ queue: name, rate }))).toMatchObject({ path: "definitions[0].queue", ...expected });
    expect(await refused(offline.syncConcurrencyPolicies(name as string, []))).toMatchObject({
      path: "namespace",
      ...expected,
    });
  });

  test.each([
    null,
    undefined,
    "x",
    {},
    [null],
    [[]],
    new Array(1),
    Array.from({ length: 10_001 }, () => ({ queue: "x", rate })),
  ])("no list of definitions", async (definitions) => {
    await refused(offline.syncRateLimitPolicies("n", definitions as never));
  });

  test("bad options", async () => {
    const sync = (options: unknown) => refused(offline.syncRateLimitPolicies("n", [], options as never));
    expect(await sync({ prune: null })).toMatchObject({ path: "options.prune" });
    expect(await sync({ pruned: true })).toMatchObject({ accepted: expect.stringContaining("prune (did") });
    expect(await sync({ executor: "postgres://" })).toMatchObject({ path: "options.executor" });
    expect(await sync(null)).toMatchObject({ path: "options", got: "null" });
  });

  test("what is in bounds is sent", async () => {
    await expect(
      rates({ queue: "x".repeat(256), rate: { limit: 1e6, intervalMs: 86_400_000, burst: 1 } }),
    ).rejects.toThrow("was sent");
  });
});
