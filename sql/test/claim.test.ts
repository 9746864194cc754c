import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { claim, complete, enqueue, fail, jobRow, rows, syncCaps, syncRateLimits } from "./support/calls";
import { TestClock } from "./support/clock";
import { refusalOf } from "./support/refusal";
import { backendOf, untilWaiting } from "./support/sessions";

let database: TestDatabase;
let client: Client;
let other: Client;
let clock: TestClock;
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
  other = await database.connect();
  clock = await TestClock.install(client);
});
afterAll(() => database.drop());

let queue: string;
let queues = 0;
beforeEach(() => {
  queue = `q${queues++}`;
});

const now = () => new Date(Number(clock.nowUs / 1000n));
const raw = (most: number, leaseMs = 60_000) =>
  rows(client, "SELECT * FROM workhorse.claim_v1($1, 'worker 1', $2, $3)", [queue, most, leaseMs]);

/** The ways in which a queue may be limited, none of which bites. */
const limits: [name: string, apply: () => Promise<unknown>][] = [
  ["without limits", async () => {}],
  [
    "with a rate limit",
    () => syncRateLimits(client, queue, [{ queue, rate: { limit: 1000, intervalMs: 1, burst: 1000 } }]),
  ],
  ["with a cap", () => syncCaps(client, queue, [{ queue, maxActive: 1000 }])],
  [
    "with limits per key",
    async () => {
      const rate = { limit: 1000, intervalMs: 1, burst: 1000 };
      await syncRateLimits(client, queue, [{ queue, rate, perKey: rate }]);
      await syncCaps(client, queue, [{ queue, maxActive: 1000, maxActivePerKey: 1000 }]);
    },
  ],
];

describe.each(limits)("a claim of a queue %s", (_, apply) => {
  beforeEach(apply);

  test("returns a row per started job, and one more when fewer start than asked for", async () => {
    const [id] = await enqueue(client, {
      queue,
      type: "invoice.send",
      payload: { n: 1 },
      concurrencyKey: "k",
      priority: 3,
      maxAttempts: 7,
    });
    const [job, last, ...more] = await raw(2, 1500);
    expect(more).toEqual([]);
    expect(job).toEqual({
      id,
      queue_name: queue,
      type: "invoice.send",
      payload: { n: 1 },
      concurrency_key: "k",
      priority: 3,
      attempt: 1,
      max_attempts: 7,
      fence_token: "1",
      created_at: now(),
      started_at: now(),
      lease_expires_at: new Date(now().getTime() + 1500),
      next_eligible_at: null,
      wait_ms: null,
      reason: null,
    });
    const empty = Object.fromEntries(Object.keys(job!).map((column) => [column, null]));
    expect(last).toEqual({ ...empty, reason: "empty" });
    expect(await jobRow(client, id!)).toMatchObject({ state: "active", worker_id: "worker 1", started_at: now() });
  });

  test("has no last row when as many start as were asked for", async () => {
    await enqueue(client, { queue }, { queue }, { queue });
    expect((await raw(2)).map(({ id }) => id === null)).toEqual([false, false]);
  });

  test("starts jobs, and returns them, by priority, the higher first, then by age", async () => {
    const jobs = [0, 5, -32_768, 0, 32_767, 5, -1, 0].map((priority, i) => ({
      queue,
      priority,
      ...(i % 3 ? { concurrencyKey: `k${i % 3}` } : {}),
    }));
    const ids = await enqueue(client, ...jobs);
    const turns = [4, 1, 5, 0, 3, 7, 6, 2].map((i) => ids[i]);
    const { jobs: first } = await claim(client, queue, { most: 3 });
    const { jobs: others } = await claim(client, queue, { most: 10 });
    expect([...first, ...others].map(({ id }) => id)).toEqual(turns);
  });

  test("a job that comes back takes its old place", async () => {
    const [a, b, c] = await enqueue(client, { queue }, { queue }, { queue });
    const { jobs } = await claim(client, queue, { most: 2 });
    await fail(client, jobs[0]!, { delayMs: 0 });
    const again = await claim(client, queue, { most: 1 });
    expect(again.jobs.map(({ id, attempt, fence_token }) => [id, attempt, fence_token])).toEqual([[a, 2, "2"]]);
    expect(jobs[1]!.id).toBe(b);
    expect((await claim(client, queue)).jobs[0]!.id).toBe(c);
  });

  test("insertion is the order, also when a transaction commits late", async () => {
    await other.query("BEGIN");
    const [early] = await enqueue(other, { queue, concurrencyKey: "k" });
    const [late, later] = await enqueue(client, { queue, concurrencyKey: "k" }, { queue, concurrencyKey: "k" });
    expect((await claim(client, queue)).jobs.map(({ id }) => id)).toEqual([late]);
    await other.query("COMMIT");
    expect((await claim(client, queue, { most: 2 })).jobs.map(({ id }) => id)).toEqual([early, later]);
  });

  test("scheduled jobs that are due count as ready; the next one's time is the answer", async () => {
    const [due, next] = await enqueue(client, { queue, delayMs: 500 }, { queue, delayMs: 1500, concurrencyKey: "k" });
    expect(await claim(client, queue)).toEqual({
      jobs: [],
      answer: { nextUs: clock.nowUs + 500_000n, waitMs: 500, reason: "empty" },
    });
    await clock.advanceMs(500);
    const { jobs, answer } = await claim(client, queue, { most: 5 });
    expect(jobs.map(({ id }) => id)).toEqual([due]);
    expect(answer).toEqual({ nextUs: clock.nowUs + 1_000_000n, waitMs: 1000, reason: "empty" });
    await clock.advance(999_999);
    expect((await claim(client, queue)).answer).toMatchObject({ waitMs: 1 }); // rounded up
    await clock.advance(1);
    expect((await claim(client, queue)).jobs.map(({ id }) => id)).toEqual([next]);
  });

  test("jobs with an expired lease do not come back through it", async () => {
    await enqueue(client, { queue });
    await claim(client, queue, { leaseMs: 100 });
    await clock.advanceMs(1000);
    expect(await claim(client, queue)).toEqual({ jobs: [], answer: { nextUs: null, waitMs: null, reason: "empty" } });
  });

  test("passes over a job that another transaction holds, and comes back for it", async () => {
    const [held, free] = await enqueue(client, { queue, concurrencyKey: "k" }, { queue, concurrencyKey: "k" });
    await other.query("BEGIN");
    await other.query("SELECT FROM workhorse.job WHERE id = $1 FOR UPDATE", [held]);
    const first = await claim(client, queue, { most: 2 });
    expect(first.jobs.map(({ id }) => id)).toEqual([free]);
    await other.query("ROLLBACK");
    expect((await claim(client, queue, { most: 2 })).jobs.map(({ id }) => id)).toEqual([held]);
  });

  test.each(["REPEATABLE READ", "SERIALIZABLE"])("is refused under %s", async (level) => {
    await client.query(`BEGIN ISOLATION LEVEL ${level}`);
    const refusal = await refusalOf(claim(client, queue));
    await client.query("ROLLBACK");
    expect(refusal).toMatchObject({ code: "0A000", message: `claim_v1 cannot run at isolation level ${level}` });
  });
});

describe("when fewer start than asked for, the answer is the earliest time at which one would, and why:", () => {
  const minute = { limit: 1, intervalMs: 60_000, burst: 2 };

  test("tokens", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: minute }]);
    await enqueue(client, { queue }, { queue }, { queue });
    const { jobs, answer } = await claim(client, queue, { most: 3 });
    expect(jobs).toHaveLength(2);
    expect(answer).toEqual({ nextUs: clock.nowUs + 60_000_000n, waitMs: 60_000, reason: "tokens" });
  });

  test("a token that comes at a fraction of a microsecond: rounded up", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: { limit: 7, intervalMs: 1, burst: 1 } }]);
    await enqueue(client, { queue }, { queue });
    await claim(client, queue);
    expect((await claim(client, queue)).answer).toEqual({ nextUs: clock.nowUs + 143n, waitMs: 1, reason: "tokens" });
    await clock.advance(142);
    expect((await claim(client, queue)).jobs).toEqual([]);
    await clock.advance(1);
    expect((await claim(client, queue)).jobs).toHaveLength(1);
  });

  test("key_tokens: the first key to open", async () => {
    const rate = { limit: 100, intervalMs: 1, burst: 100 };
    await syncRateLimits(client, queue, [{ queue, rate, perKey: { ...minute, burst: 1 } }]);
    await enqueue(client, { queue, concurrencyKey: "a" }, { queue, concurrencyKey: "a" });
    await claim(client, queue, { most: 2 });
    await clock.advanceMs(10_000);
    await enqueue(client, { queue, concurrencyKey: "b" }, { queue, concurrencyKey: "b" });
    const { jobs, answer } = await claim(client, queue, { most: 4 });
    expect(jobs.map(({ concurrency_key }) => concurrency_key)).toEqual(["b"]);
    expect(answer).toEqual({ nextUs: clock.nowUs + 50_000_000n, waitMs: 50_000, reason: "key_tokens" });
  });

  test("slots and key_slots: the first lease to expire; a completion frees a slot at once", async () => {
    await syncCaps(client, queue, [{ queue, maxActive: 2, maxActivePerKey: 1 }]);
    const keyed = (key: string) => ({ queue, concurrencyKey: key });
    await enqueue(client, keyed("a"), keyed("a"), keyed("b"), keyed("b"));
    const { jobs, answer } = await claim(client, queue, { most: 1, leaseMs: 9000 });
    expect(answer).toBeNull();
    await clock.advanceMs(1000);
    const second = await claim(client, queue, { most: 2, leaseMs: 5000 });
    expect(second.jobs.map(({ concurrency_key }) => concurrency_key)).toEqual(["b"]);
    expect(second.answer).toEqual({ nextUs: clock.nowUs + 5_000_000n, waitMs: 5000, reason: "slots" });
    await complete(client, second.jobs[0]!);
    const third = await claim(client, queue, { most: 2, leaseMs: 20_000 });
    expect(third.jobs.map(({ concurrency_key }) => concurrency_key)).toEqual(["b"]);
    await complete(client, third.jobs[0]!);
    // Only a is left, whose one slot is taken.
    expect((await claim(client, queue)).answer).toEqual({
      nextUs: jobs[0]!.lease_us,
      waitMs: 8000,
      reason: "key_slots",
    });
    await clock.set(jobs[0]!.lease_us);
    expect((await claim(client, queue)).jobs).toHaveLength(1);
  });

  test("an expired lease frees its slot, but not its token", async () => {
    await syncCaps(client, queue, [{ queue, maxActive: 1 }]);
    await syncRateLimits(client, queue, [{ queue, rate: minute }]);
    await enqueue(client, { queue }, { queue }, { queue });
    await claim(client, queue, { leaseMs: 1000 });
    expect((await claim(client, queue)).answer!.reason).toBe("slots");
    await clock.advanceMs(1000);
    expect((await claim(client, queue, { leaseMs: 1000 })).jobs).toHaveLength(1);
    await clock.advanceMs(1000);
    expect((await claim(client, queue)).answer).toMatchObject({ reason: "tokens", waitMs: 58_000 });
  });

  test("lowering a cap below what is active starts nothing new and ends nothing", async () => {
    await syncCaps(client, queue, [{ queue, maxActive: 3 }]);
    await enqueue(client, ...Array.from({ length: 6 }, () => ({ queue })));
    const { jobs } = await claim(client, queue, { most: 3 });
    await syncCaps(client, queue, [{ queue, maxActive: 1 }]);
    for (const job of jobs) {
      expect((await claim(client, queue)).jobs).toEqual([]);
      await complete(client, job);
    }
    expect((await claim(client, queue, { most: 3 })).jobs).toHaveLength(1);
  });

  test("another key's job starts in its turn, however many throttled ones stand in front", async () => {
    const rate = { limit: 100, intervalMs: 1, burst: 100 };
    await syncRateLimits(client, queue, [{ queue, rate, perKey: { ...minute, burst: 1 } }]);
    await enqueue(client, ...Array.from({ length: 3000 }, () => ({ queue, concurrencyKey: "busy" })));
    await enqueue(client, { queue, concurrencyKey: "other" }, { queue });
    const { jobs } = await claim(client, queue, { most: 10 });
    expect(jobs.map(({ concurrency_key }) => concurrency_key)).toEqual(["busy", "other", null]);
  });
});

test("the clock is read after the admission lock is held, never before", async () => {
  await syncCaps(client, queue, [{ queue, maxActive: 5 }]);
  await enqueue(client, { queue });
  const pid = await backendOf(other);
  await client.query("BEGIN");
  await client.query("SELECT pg_advisory_xact_lock(workhorse.admission_lock_id($1))", [queue]);
  const waiting = claim(other, queue);
  await untilWaiting(client, [pid]);
  await clock.advanceMs(7_000);
  await client.query("COMMIT");
  const { jobs } = await waiting;
  expect(jobs[0]!.started_us).toBe(clock.nowUs);
  expect(jobs[0]!.lease_us).toBe(clock.nowUs + 60_000_000n);
});

describe("a claim is refused, before any lock:", () => {
  test.each<[arguments_: unknown[], problem: string]>([
    [[null, "w", 1, 1000], "queue is null; accepted: 1 to 256 bytes"],
    [["", "w", 1, 1000], "queue has 0 bytes; accepted: 1 to 256 bytes"],
    [["é".repeat(129), "w", 1, 1000], "queue has 258 bytes; accepted: 1 to 256 bytes"],
    [["q", null, 1, 1000], "worker id is null; accepted: 1 to 256 bytes"],
    [["q", "", 1, 1000], "worker id has 0 bytes; accepted: 1 to 256 bytes"],
    [["q", "w", null, 1000], "max jobs is null; accepted: 1 to 1,000"],
    [["q", "w", 0, 1000], "max jobs is 0; accepted: 1 to 1,000"],
    [["q", "w", -1, 1000], "max jobs is -1; accepted: 1 to 1,000"],
    [["q", "w", 1001, 1000], "max jobs is 1001; accepted: 1 to 1,000"],
    [["q", "w", 1, null], "lease is null ms; accepted: 100 to 86,400,000 ms"],
    [["q", "w", 1, 99], "lease is 99 ms; accepted: 100 to 86,400,000 ms"],
    [["q", "w", 1, 86_400_001], "lease is 86400001 ms; accepted: 100 to 86,400,000 ms"],
  ])("%j", async (arguments_, problem) => {
    const refusal = await refusalOf(client.query("SELECT * FROM workhorse.claim_v1($1, $2, $3, $4)", arguments_));
    expect(refusal).toMatchObject({ code: "WH002", message: `invalid call of claim_v1: ${problem}` });
  });
});
