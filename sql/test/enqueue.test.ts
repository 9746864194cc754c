import { afterAll, afterEach, beforeAll, describe, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { claim, enqueue, jobRow, rows, syncCaps, syncRateLimits } from "./support/calls";
import { TestClock } from "./support/clock";
import { errorOf, refusalOf } from "./support/refusal";
import { backendOf, Listener } from "./support/sessions";

let database: TestDatabase;
let client: Client;
let other: Client;
let listener: Listener;
let clock: TestClock;
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
  other = await database.connect();
  clock = await TestClock.install(client);
  listener = await Listener.start(await database.connect());
});
afterAll(() => database.drop());
afterEach(async () => {
  await client.query("DELETE FROM workhorse.job");
  await listener.taken();
});

const count = async () => (await rows(client, "SELECT count(*)::int AS n FROM workhorse.job"))[0]!.n;
const call = (jobs: unknown) => rows(client, "SELECT workhorse.enqueue_v1($1) AS id", [JSON.stringify(jobs)]);

test("keeps every field, and has a default for all but the type", async () => {
  const retryPolicy = { kind: "exponential", initialDelayMs: 5, multiplier: 1.5, maxDelayMs: 100 };
  const [full, bare] = (
    await call([
      {
        type: "invoice.send ä",
        payload: { deep: [1, "zwei", null, { x: 1.25 }] },
        queue: "mail",
        concurrencyKey: "customer 😀",
        priority: -7,
        delayMs: 1500,
        maxAttempts: 3,
        retryPolicy,
      },
      { type: "bare" },
    ])
  ).map(({ id }) => id);
  const now = new Date(Number(clock.nowUs / 1000n));
  expect(await jobRow(client, full)).toMatchObject({
    state: "scheduled",
    type: "invoice.send ä",
    payload: { deep: [1, "zwei", null, { x: 1.25 }] },
    queue_name: "mail",
    concurrency_key: "customer 😀",
    priority: -7,
    attempt: 0,
    fence_token: "0",
    max_attempts: 3,
    retry_policy: retryPolicy,
    created_at: now,
    run_at: new Date(now.getTime() + 1500),
    started_at: null,
    finished_at: null,
  });
  expect(await jobRow(client, bare)).toMatchObject({
    state: "ready",
    payload: null,
    queue_name: "default",
    concurrency_key: null,
    priority: 0,
    max_attempts: 25,
    retry_policy: null,
    run_at: null,
  });
});

test("null stands for nothing where a field may be left out as null", async () => {
  const [{ id }] = (await call([{ type: "t", payload: null, concurrencyKey: null, retryPolicy: null }])) as [
    { id: string },
  ];
  expect(await jobRow(client, id)).toMatchObject({ payload: null, concurrency_key: null, retry_policy: null });
});

test("10,000 jobs in one call: ids in the order of the jobs, each queue notified once, in its commit", async () => {
  const jobs = Array.from({ length: 10_000 }, (_, i) => ({ queue: `q${i % 3}`, payload: i }));
  const ids = await enqueue(client, ...jobs);
  expect(ids).toHaveLength(10_000);
  expect(ids).toEqual([...ids].sort((a, b) => Number(a) - Number(b)));
  const stored = await rows(client, "SELECT payload FROM workhorse.job ORDER BY id");
  expect(stored.map(({ payload }) => payload)).toEqual(jobs.map(({ payload }) => payload));
  expect(await listener.taken()).toEqual(["q0", "q1", "q2"]);
});

test("an empty list enqueues nothing", async () => {
  expect(await call([])).toEqual([]);
  expect(await listener.taken()).toEqual([]);
});

test("belongs to the caller's transaction: a rollback takes the jobs and their notification back", async () => {
  await client.query("BEGIN");
  await enqueue(client, { queue: "q" });
  expect((await claim(other, "q")).jobs).toEqual([]);
  await client.query("ROLLBACK");
  expect(await count()).toBe(0);
  expect(await listener.taken()).toEqual([]);
});

test.each(["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])("works under %s", async (level) => {
  await client.query(`BEGIN ISOLATION LEVEL ${level}`);
  const [id] = await enqueue(client, { queue: "q" });
  await client.query("COMMIT");
  expect((await claim(client, "q")).jobs.map((job) => job.id)).toEqual([id]);
});

describe("pays nothing for limits:", () => {
  test("waits for no claim, sync or other enqueue of the same queue and key that is under way", async () => {
    const rate = { limit: 1, intervalMs: 1000, burst: 100 };
    await syncRateLimits(client, "n", [{ queue: "q", rate, perKey: rate }]);
    await syncCaps(client, "n", [{ queue: "q", maxActive: 9, maxActivePerKey: 9 }]);
    await enqueue(client, { queue: "q", concurrencyKey: "k" });
    await client.query("BEGIN");
    await enqueue(client, { queue: "q", concurrencyKey: "k" });
    expect((await claim(client, "q", { most: 5 })).jobs).toHaveLength(2);
    await syncRateLimits(client, "n", [{ queue: "q", rate }]);
    await syncCaps(client, "n", []);

    await other.query("BEGIN; SET LOCAL lock_timeout = 1");
    const [id] = await enqueue(other, { queue: "q", concurrencyKey: "k" });
    // And holds nothing that a claim would wait for.
    const held = await rows(
      client,
      `SELECT l.locktype, l.relation::regclass::text AS relation FROM pg_locks AS l
       LEFT JOIN pg_index AS i ON i.indexrelid = l.relation
       WHERE l.pid = $1 AND l.locktype NOT IN ('virtualxid', 'transactionid') AND l.mode <> 'AccessShareLock'
         AND coalesce(i.indrelid, l.relation) IS DISTINCT FROM 'workhorse.job'::regclass`,
      [await backendOf(other)],
    );
    expect(held).toEqual([{ locktype: "relation", relation: "workhorse.job_id_seq" }]);
    await client.query("COMMIT");
    expect((await claim(client, "q", { most: 5 })).jobs).toEqual([]);
    await other.query("COMMIT");
    expect((await claim(client, "q", { most: 5 })).jobs.map((job) => job.id)).toEqual([id]);
  });
});

describe("the time of a job", () => {
  const at = "2027-01-15T08:00:00"; // the test's clock
  test.each([
    ["in the past", { runAt: "2020-01-31T08:00:00Z" }, "ready"],
    ["now", { runAt: `${at}Z` }, "ready"],
    ["a microsecond ahead", { runAt: `${at}.000001Z` }, "scheduled"],
    ["ahead in a zone that makes it past", { runAt: "2027-01-15T09:00:00+02:00" }, "ready"],
    ["short zone", { runAt: "2027-01-15 08:00-01" }, "scheduled"],
    ["no delay", { delayMs: 0 }, "ready"],
    ["a delay of a millisecond", { delayMs: 1 }, "scheduled"],
  ])("%s", async (_, when, state) => {
    const [id] = await enqueue(client, { queue: "q", ...when });
    expect((await jobRow(client, id!)).state).toBe(state);
  });

  test("is the same whatever the session's settings are", async () => {
    const zoned = await database.connect();
    await zoned.query("SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'SQL, DMY'");
    const [id] = await enqueue(zoned, { queue: "q", runAt: "2030-02-03T04:05:06.789Z" });
    expect((await jobRow(client, id!)).run_at).toEqual(new Date("2030-02-03T04:05:06.789Z"));
  });
});

describe("a bad job is refused, with where, what was got and what is accepted, and nothing is enqueued:", () => {
  const cases: [change: unknown, problem: RegExp][] = [
    [{ type: undefined }, /^type is missing; accepted: a string of 1 to 256 bytes$/],
    [{ type: null }, /^type is null; /],
    [{ type: "" }, /^type has 0 bytes; accepted: 1 to 256 bytes$/],
    [{ type: 5 }, /^type is 5; accepted: a string/],
    [{ queue: null }, /^queue is null; accepted: a string/],
    [{ queue: "" }, /^queue has 0 bytes; /],
    [{ queue: "x".repeat(257) }, /^queue has 257 bytes; /],
    [{ concurrencyKey: "" }, /^concurrencyKey has 0 bytes; accepted: 1 to 256 bytes$/],
    [{ concurrencyKey: "é".repeat(129) }, /^concurrencyKey has 258 bytes; /],
    [{ concurrencyKey: 5 }, /^concurrencyKey is 5; /],
    [{ priority: 32_768 }, /^priority is 32768; accepted: an integer from -32,768 to 32,767$/],
    [{ priority: 1.5 }, /^priority is 1\.5; /],
    [{ priority: null }, /^priority is null; /],
    [{ priority: "1" }, /^priority is "1"; /],
    [{ maxAttempts: 0 }, /^maxAttempts is 0; accepted: an integer from 1 to 1,000,000$/],
    [{ maxAttempts: -1 }, /^maxAttempts is -1; /],
    [{ maxAttempts: 1e7 }, /^maxAttempts is 10000000; /],
    [{ delayMs: -1 }, /^delayMs is -1; accepted: an integer from 0 to 31,536,000,000$/],
    [{ delayMs: null }, /^delayMs is null; /],
    [{ delayMs: "5" }, /^delayMs is "5"; /],
    [{ delayMs: 5, runAt: "2030-01-31T08:00:00Z" }, /^runAt and delayMs are both given; accepted: one of them$/],
    [
      { runAt: "2030-01-31T08:00:00" },
      /^runAt is "2030-01-31T08:00:00"; accepted: a time such as "2030-01-31T08:00:00Z"$/,
    ],
    [{ runAt: "tomorrow" }, /^runAt is "tomorrow"; /],
    [{ runAt: "infinity" }, /^runAt is "infinity"; /],
    [{ runAt: "2030-02-30T08:00:00Z" }, /^runAt is "2030-02-30T08:00:00Z", which is no time; /],
    [{ runAt: "2030-13-01T08:00:00Z" }, /which is no time/],
    [{ runAt: "2030-01-01T25:00:00Z" }, /which is no time/],
    [{ runAt: "0000-01-01T00:00:00Z" }, /which is no time/],
    [{ runAt: "2030-01-01T00:00:00+99" }, /which is no time/],
    [{ runAt: "2030-01-01T00:00:00+01:99" }, /which is no time/],
    [{ runAt: 1_900_000_000_000 }, /^runAt is 1900000000000; /],
    [{ runAt: null }, /^runAt is null; /],
    [{ retryPolicy: "fixed" }, /^retryPolicy is "fixed"; accepted: an object with a "kind", or null$/],
    [{ retryPolicy: {} }, /^retryPolicy\.kind is missing; accepted: "fixed", "exponential", "decorrelated-jitter"$/],
    [{ retryPolicy: { kind: "linear" } }, /^retryPolicy\.kind is "linear"; /],
    [{ retryPolicy: { kind: null } }, /^retryPolicy\.kind is null; /],
    [
      { retryPolicy: { kind: "fixed" } },
      /^retryPolicy\.delayMs is missing; accepted: an integer from 0 to 31,536,000,000$/,
    ],
    [
      { retryPolicy: { kind: "fixed", delayMs: 1, delay: 1 } },
      /^retryPolicy\.delay is not a known field; accepted: kind, delayMs$/,
    ],
    [
      { retryPolicy: { kind: "exponential", initialDelayMs: 1, maxDelayMs: 1 } },
      /^retryPolicy\.multiplier is missing; accepted: a number from 1 to 100$/,
    ],
    [
      { retryPolicy: { kind: "exponential", initialDelayMs: 1, maxDelayMs: 1, multiplier: "2" } },
      /^retryPolicy\.multiplier is "2"; /,
    ],
    [
      { retryPolicy: { kind: "exponential", initialDelayMs: 1.5, maxDelayMs: 1, multiplier: 2 } },
      /^retryPolicy\.initialDelayMs is 1\.5; /,
    ],
    [{ retryPolicy: { kind: "decorrelated-jitter", baseDelayMs: 1 } }, /^retryPolicy\.maxDelayMs is missing; /],
    [
      { retryPolicy: { kind: "decorrelated-jitter", baseDelayMs: 1, maxDelayMs: 1, multiplier: 2 } },
      /^retryPolicy\.multiplier is not a known field/,
    ],
    [
      { concurrency_key: "k" },
      /^concurrency_key is not a known field; accepted: type, payload, queue, concurrencyKey, priority, runAt, /,
    ],
  ];
  test.each(cases.map(([change, problem]) => ({ change, problem, shown: JSON.stringify(change).slice(0, 90) })))(
    "$shown",
    async ({ change, problem }) => {
      const bad = { type: "t", ...(change as object) } as { queue?: unknown };
      const refusal = await refusalOf(call([{ type: "t" }, { type: "t" }, bad, { type: "t" }]));
      expect(refusal.code).toBe("WH002");
      expect(refusal.detail.problem).toMatch(problem);
      expect(refusal.message).toContain(`(job 3 of the call): ${refusal.detail.problem}`);
      const queue = typeof bad.queue === "string" ? bad.queue.slice(0, 256) : null;
      expect(refusal.detail).toMatchObject({ index: 2, queue });
      expect(refusal.hint).toContain("No job of this call was enqueued");
      expect(await count()).toBe(0);
    },
  );

  test.each([null, 5, "t", ["t"]])("a job that is %j", async (bad) => {
    const refusal = await refusalOf(call([bad]));
    expect(refusal.detail).toMatchObject({
      index: 0,
      problem: expect.stringMatching(/^the job is .*; accepted: \{"type"/),
    });
  });

  test("the queue of the bad job is named", async () => {
    const refusal = await refusalOf(call([{ type: "t", queue: "mail", priority: 1e9 }]));
    expect(refusal.message).toContain('for queue "mail" (job 1 of the call)');
  });

  test.each([null, {}, "[]", 5])("jobs that are %j", async (jobs) => {
    const refusal = await refusalOf(call(jobs));
    expect(refusal).toMatchObject({
      code: "WH002",
      detail: { problem: `jobs is ${JSON.stringify(jobs)}; accepted: an array of at most 10,000 jobs` },
    });
  });

  test("no jobs at all (null), and more than 10,000", async () => {
    expect((await refusalOf(client.query("SELECT workhorse.enqueue_v1(NULL)"))).detail.problem).toMatch(
      /^jobs is missing; /,
    );
    const many = Array.from({ length: 10_001 }, () => ({ type: "t" }));
    expect((await refusalOf(call(many))).detail.problem).toBe("jobs has 10001 elements; accepted: at most 10,000");
    expect(await count()).toBe(0);
  });

  test("a payload that jsonb cannot hold: PostgreSQL itself refuses it", async () => {
    expect(await errorOf(call([{ type: "t", payload: "nul \u0000" }]))).toMatchObject({ code: "22P05" });
    expect(await count()).toBe(0);
  });
});
