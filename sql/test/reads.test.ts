import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { backOff, cancel, claim, complete, enqueue, type Rate, rows, syncCaps, syncRateLimits } from "./support/calls";
import { TestClock } from "./support/clock";

let database: TestDatabase;
let client: Client;
let clock: TestClock;
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
  clock = await TestClock.install(client);
});
afterAll(() => database.drop());

let queue: string;
let queues = 0;
const nextQueue = () => {
  queue = `q${queues++}`;
};
beforeEach(nextQueue);

const us = (column: string) => `(extract(epoch FROM ${column}) * 1000000)::bigint AS ${column}`;
const rateStatus = async (of = queue) =>
  (
    await rows(
      client,
      `SELECT namespace, available_tokens, throttled_ready, throttled_keys, ${us("next_eligible_at")}, capped, starts,
         ${us("backed_off_until")} FROM workhorse.rate_limit_statuses_v1(ARRAY[$1])`,
      [of],
    )
  )[0];
const capStatus = async (of = queue) =>
  (await rows(client, "SELECT * FROM workhorse.concurrency_statuses_v1(ARRAY[$1])", [of]))[0];
const health = async (of = queue) =>
  (await rows(client, "SELECT * FROM workhorse.queue_health_v1()")).find(({ queue_name }) => queue_name === of);
const explain = async (id: string) =>
  (await rows(client, "SELECT workhorse.explain_job_v1($1) AS told", [id]))[0]!.told;
const backlog = (count: number, key?: string) =>
  enqueue(client, ...Array.from({ length: count }, () => ({ queue, ...(key ? { concurrencyKey: key } : {}) })));

const second = (limit: number, burst: number): Rate => ({ limit, intervalMs: 1000, burst });
const ample = second(1000, 1000);

describe("a status tells in advance what a claim of unlimited size then does", () => {
  const small = fc.record({
    limit: fc.integer({ min: 1, max: 5 }),
    intervalMs: fc.constantFrom(1, 1000, 60_000),
    burst: fc.integer({ min: 1, max: 8 }),
  });
  const keys = fc.array(fc.constantFrom(undefined, "a", "b", "c"), { maxLength: 25 });
  const waitMs = fc.integer({ min: 0, max: 3000 });

  test("of tokens", async () => {
    await fc.assert(
      fc.asyncProperty(
        small,
        fc.option(small),
        keys,
        keys,
        fc.integer({ min: 1, max: 9 }),
        waitMs,
        async (rate, perKey, before, after, most, wait) => {
          nextQueue();
          await syncRateLimits(client, queue, [{ queue, rate, perKey }]);
          for (const key of before) await backlog(1, key);
          await claim(client, queue, { most });
          await clock.advanceMs(wait);
          for (const key of after) await backlog(1, key);
          const [{ ready }] = (await rows(
            client,
            "SELECT count(*)::int AS ready FROM workhorse.job WHERE queue_name = $1 AND state = 'ready'",
            [queue],
          )) as [{ ready: number }];
          const status = await rateStatus();
          const { jobs, answer } = await claim(client, queue, { most: 1000 });
          expect(status).toMatchObject({
            throttled_ready: ready - jobs.length,
            next_eligible_at: jobs.length > 0 || ready === 0 ? null : String(answer!.nextUs),
            capped: false,
          });
          expect(status!.available_tokens - jobs.length).toBe((await rateStatus())!.available_tokens);
        },
      ),
      { numRuns: 40 },
    );
  });

  test("of slots", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 8 }),
        fc.option(fc.integer({ min: 1, max: 8 })),
        keys,
        keys,
        fc.integer({ min: 1, max: 9 }),
        waitMs,
        async (maxActive, perKey, before, after, most, wait) => {
          nextQueue();
          await syncCaps(client, queue, [{ queue, maxActive, maxActivePerKey: perKey && Math.min(perKey, maxActive) }]);
          for (const key of before) await backlog(1, key);
          const { jobs: active } = await claim(client, queue, { most, leaseMs: 1500 });
          await clock.advanceMs(wait);
          for (const key of after) await backlog(1, key);
          const [{ ready }] = (await rows(
            client,
            "SELECT count(*)::int AS ready FROM workhorse.job WHERE queue_name = $1 AND state = 'ready'",
            [queue],
          )) as [{ ready: number }];
          const status = await capStatus();
          const { jobs } = await claim(client, queue, { most: 1000 });
          expect(status).toMatchObject({
            active: wait < 1500 ? active.length : 0,
            blocked_ready: ready - jobs.length,
            capped: false,
          });
        },
      ),
      { numRuns: 40 },
    );
  });
});

describe("rate_limit_statuses_v1", () => {
  test("of no queues is of all that have a policy, by name; of named ones, of those", async () => {
    const names = [`${queue} b`, `${queue} a`];
    await syncRateLimits(
      client,
      queue,
      names.map((name) => ({ queue: name, rate: second(2, 3), perKey: second(4, 5) })),
    );
    const all = await rows(client, "SELECT * FROM workhorse.rate_limit_statuses_v1()");
    expect(all.map(({ queue_name }) => queue_name).filter((name) => name.startsWith(`${queue} `))).toEqual(
      [...names].reverse(),
    );
    expect(
      await rows(client, "SELECT * FROM workhorse.rate_limit_statuses_v1($1)", [[names[0], "no such queue"]]),
    ).toEqual([
      {
        queue_name: names[0],
        namespace: queue,
        rate_limit: 2,
        rate_interval_ms: 1000,
        rate_burst: 3,
        per_key_limit: 4,
        per_key_interval_ms: 1000,
        per_key_burst: 5,
        available_tokens: 3,
        throttled_ready: 0,
        throttled_keys: 0,
        next_eligible_at: null,
        capped: false,
        starts: "0",
        backed_off_until: null,
      },
    ]);
    expect(await rows(client, "SELECT * FROM workhorse.rate_limit_statuses_v1('{}')")).toEqual([]);
  });

  test("a queue without a policy has no status, also after it had one", async () => {
    expect(await rateStatus()).toBeUndefined();
    await syncRateLimits(client, queue, [{ queue, rate: ample }]);
    await syncRateLimits(client, queue, []);
    expect(await rateStatus()).toBeUndefined();
  });

  test("counts the keys that their own bucket cannot start", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: ample, perKey: second(1, 1) }]);
    for (const key of ["a", "b", "c"]) await backlog(3, key);
    await claim(client, queue, { most: 2 });
    expect(await rateStatus()).toMatchObject({ throttled_ready: 6, throttled_keys: 2, next_eligible_at: null });
    await claim(client, queue);
    expect(await rateStatus()).toMatchObject({
      throttled_ready: 6,
      throttled_keys: 3,
      next_eligible_at: String(clock.nowUs + 1_000_000n),
    });
  });

  test("counts up to 1,000, then says that it is capped", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: second(1, 1) }]);
    await backlog(1001);
    expect(await rateStatus()).toMatchObject({ throttled_ready: 1000, capped: false });
    await backlog(1);
    expect(await rateStatus()).toMatchObject({ throttled_ready: 1000, capped: true });
  });

  test("shows a back-off and when the queue opens", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: ample }]);
    await backlog(1);
    await backOff(client, queue, null, 5000);
    const opens = String(clock.nowUs + 5_000_000n);
    expect(await rateStatus()).toMatchObject({
      available_tokens: 1000,
      next_eligible_at: opens,
      backed_off_until: opens,
    });
  });

  test("changes nothing", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: second(1, 2), perKey: second(1, 1) }]);
    await backlog(3, "a");
    await claim(client, queue, { most: 3 });
    const state = () =>
      rows(
        client,
        "SELECT a.*, l.* FROM workhorse.queue_admission AS a JOIN workhorse.lane AS l USING (queue_name) WHERE a.queue_name = $1",
        [queue],
      );
    const before = await state();
    await clock.advanceMs(500);
    await rateStatus();
    await health();
    expect(await state()).toEqual(before);
  });
});

describe("concurrency_statuses_v1", () => {
  test("tells active jobs, what is blocked, and which keys", async () => {
    await syncCaps(client, queue, [{ queue, maxActive: 3, maxActivePerKey: 1 }]);
    for (const key of ["a", "b"]) await backlog(2, key);
    await claim(client, queue, { most: 4, leaseMs: 1000 });
    expect(await capStatus()).toEqual({
      queue_name: queue,
      namespace: queue,
      max_active: 3,
      max_active_per_key: 1,
      active: 2,
      blocked_ready: 2,
      blocked_keys: 2,
      capped: false,
    });
    await clock.advanceMs(1000);
    expect(await capStatus()).toMatchObject({ active: 0, blocked_ready: 0, blocked_keys: 0 });
  });

  test("a queue without a cap has none", async () => {
    expect(await capStatus()).toBeUndefined();
  });
});

describe("queue_health_v1", () => {
  test("counts jobs by state, and those finished in the last hour", async () => {
    await backlog(6);
    await enqueue(client, { queue, delayMs: 5000 });
    await clock.advanceMs(1500);
    const { jobs } = await claim(client, queue, { most: 3, leaseMs: 2000 });
    await complete(client, jobs[0]!);
    await cancel(client, jobs[1]!.id);
    expect(await health()).toEqual({
      queue_name: queue,
      scheduled: "1",
      ready: "3",
      active: "1",
      completed: "1",
      failed: "0",
      cancelled: "1",
      expired_leases: 0,
      oldest_ready_age_ms: "1500",
      reason: null,
      next_eligible_at: null,
      capped: false,
    });
    await clock.advanceMs(2000);
    expect(await health()).toMatchObject({ active: "1", expired_leases: 1, oldest_ready_age_ms: "3500" });
    await clock.advanceMs(3_600_000);
    expect(await health()).toMatchObject({ completed: "0", cancelled: "0" });
  });

  test("says what the ready jobs wait for, and has a row for each queue with a policy", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: second(1, 1) }]);
    expect(await health()).toMatchObject({ ready: "0", reason: null, oldest_ready_age_ms: null });
    await backlog(2);
    await claim(client, queue);
    expect(await health()).toMatchObject({
      ready: "1",
      reason: "tokens",
      next_eligible_at: new Date(Number(clock.nowUs / 1000n) + 1000),
    });
  });
});

describe("explain_job_v1", () => {
  test("says why a job does not run", async () => {
    expect(await explain("987654321")).toBeNull();
    await syncRateLimits(client, queue, [{ queue, rate: ample, perKey: second(1, 1) }]);
    const [first, next] = await backlog(2, "a");
    expect(await explain(first!)).toMatchObject({
      id: first,
      queue,
      key: "a",
      state: "ready",
      reason: "empty",
      ahead: 0,
    });
    expect(await explain(next!)).toMatchObject({ reason: "turn", ahead: 1 });
    await claim(client, queue);
    expect(await explain(first!)).toMatchObject({ state: "active", reason: "active", attempt: 1 });
    expect(await explain(next!)).toMatchObject({
      reason: "key_tokens",
      message: expect.stringContaining("no token left"),
    });
    await backOff(client, queue, null, 60_000);
    expect(await explain(next!)).toMatchObject({ reason: "backed_off" });
    const [later] = await enqueue(client, { queue, delayMs: 5000 });
    expect(await explain(later!)).toMatchObject({ state: "scheduled", reason: "scheduled" });
    await cancel(client, later!);
    expect(await explain(later!)).toMatchObject({ reason: "cancelled" });
    await clock.advanceMs(60_000);
    expect(await explain(first!)).toMatchObject({ reason: "lease_expired" });
  });

  test("tells tokens and slots of the queue, and slots of the key", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: second(1, 1) }]);
    const [, second_] = await backlog(2, "a");
    await claim(client, queue);
    expect(await explain(second_!)).toMatchObject({ reason: "tokens" });
    await syncRateLimits(client, queue, []);
    await syncCaps(client, queue, [{ queue, maxActive: 1 }]);
    expect(await explain(second_!)).toMatchObject({
      reason: "slots",
      message: `all 1 slots of queue "${queue}" are taken`,
    });
    await syncCaps(client, queue, [{ queue, maxActive: 5, maxActivePerKey: 1 }]);
    expect(await explain(second_!)).toMatchObject({ reason: "key_slots" });
  });
});
