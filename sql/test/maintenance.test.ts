import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import {
  backOff,
  cancel,
  claim,
  complete,
  enqueue,
  fail,
  jobRow,
  type Rate,
  rows,
  sweep,
  syncCaps,
  syncRateLimits,
} from "./support/calls";
import { TestClock } from "./support/clock";
import { refusalOf } from "./support/refusal";
import { Listener } from "./support/sessions";

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

let queue: string;
let queues = 0;
beforeEach(async () => {
  queue = `q${queues++}`;
  await client.query("DELETE FROM workhorse.job");
  await listener.taken();
});

const DAY_MS = 86_400_000;
const many = (count: number, more: object = {}) =>
  enqueue(client, ...Array.from({ length: count }, () => ({ queue, ...more })));
const states = async () =>
  Object.fromEntries(
    (await rows(client, "SELECT state, count(*)::int AS n FROM workhorse.job GROUP BY state")).map(({ state, n }) => [
      state,
      n,
    ]),
  );

describe.each([
  ["recover_expired_v1", "SELECT workhorse.recover_expired_v1($1)"],
  ["promote_v1", "SELECT workhorse.promote_v1($1)"],
  ["sweep_v1", "SELECT workhorse.sweep_v1($1)"],
])("%s", (name, text) => {
  test.each([null, 0, -1, 10_001])("refuses a limit of %p", async (limit) => {
    const refusal = await refusalOf(client.query(text, [limit]));
    expect(refusal).toMatchObject({
      code: "WH002",
      message: `invalid call of ${name}: limit is ${limit}; accepted: 1 to 10,000`,
    });
  });

  test("has nothing to do on an empty database", async () => {
    await client.query(text, [10_000]);
    expect(await states()).toEqual({});
  });
});

describe("recover_expired_v1", () => {
  test("takes the longest expired first, no more than asked for, and only what has expired", async () => {
    await many(4);
    const ids: string[] = [];
    for (const leaseMs of [3000, 1000, 2000, 4000]) ids.push((await claim(client, queue, { leaseMs })).jobs[0]!.id);
    await clock.advanceMs(3000);
    const recover = async (limit: number) =>
      (await rows(client, "SELECT job_id FROM workhorse.recover_expired_v1($1)", [limit])).map(({ job_id }) => job_id);
    expect(await recover(2)).toEqual([ids[1], ids[2]]);
    expect(await recover(10)).toEqual([ids[0]]);
    expect(await recover(10)).toEqual([]);
    expect(await states()).toEqual({ ready: 3, active: 1 });
    expect(await listener.taken()).toContain(queue);
  });

  test("passes over jobs that somebody else has locked: each is recovered once, by whomever", async () => {
    await many(6);
    await claim(client, queue, { most: 6, leaseMs: 100 });
    await clock.advanceMs(100);
    await client.query("BEGIN");
    const mine = await rows(client, "SELECT job_id FROM workhorse.recover_expired_v1(4)");
    const theirs = await rows(other, "SELECT job_id FROM workhorse.recover_expired_v1(4)");
    await client.query("COMMIT");
    expect([mine.length, theirs.length]).toEqual([4, 2]);
    const [attempts] = await rows(client, "SELECT min(attempt) AS low, max(attempt) AS high FROM workhorse.job");
    expect(attempts).toEqual({ low: 1, high: 1 });
  });
});

describe("promote_v1", () => {
  test("makes due jobs ready, the longest due first, no more than asked for, and notifies their queues", async () => {
    const [later, first, second] = await enqueue(
      client,
      { queue, delayMs: 3000 },
      { queue, delayMs: 1000 },
      { queue: `${queue} other`, delayMs: 2000 },
    );
    await clock.advanceMs(2500);
    await listener.taken();
    const promote = async (limit: number) =>
      (await rows(client, "SELECT workhorse.promote_v1($1) AS n", [limit]))[0]!.n;
    expect(await promote(1)).toBe(1);
    expect((await jobRow(client, first!)).state).toBe("ready");
    expect((await jobRow(client, second!)).state).toBe("scheduled");
    expect(await listener.taken()).toEqual([queue]);
    expect(await promote(10)).toBe(1);
    expect(await listener.taken()).toEqual([`${queue} other`]);
    expect(await promote(10)).toBe(0);
    expect((await jobRow(client, later!)).state).toBe("scheduled");
  });

  test("a promoted job with a key is found by the queue's claims", async () => {
    const rate: Rate = { limit: 10, intervalMs: 1, burst: 10 };
    await syncRateLimits(client, queue, [{ queue, rate, perKey: rate }]);
    const [id] = await enqueue(client, { queue, concurrencyKey: "k", delayMs: 1000 });
    expect((await claim(client, queue)).answer).toMatchObject({ waitMs: 1000 });
    await clock.advanceMs(1000);
    await client.query("SELECT workhorse.promote_v1()");
    expect((await claim(client, queue)).jobs.map((job) => job.id)).toEqual([id]);
  });
});

describe("sweep_v1", () => {
  test("removes finished jobs that were kept long enough: 7 days by default, or as told", async () => {
    await many(4);
    const { jobs } = await claim(client, queue, { most: 4, leaseMs: DAY_MS });
    await complete(client, jobs[0]!);
    await fail(client, jobs[1]!, { giveUp: true });
    await cancel(client, jobs[2]!.id);
    await clock.advanceMs(7 * DAY_MS - 1);
    await sweep(client);
    expect(await states()).toEqual({ active: 1, cancelled: 1, completed: 1, failed: 1 });
    await clock.advanceMs(1);
    expect(await sweep(client)).toBe(3);
    expect(await states()).toEqual({ active: 1 }); // whose lease is long over: it is not lost

    await client.query("SELECT workhorse.recover_expired_v1()");
    await cancel(client, jobs[3]!.id);
    await clock.advanceMs(999);
    expect(await sweep(client, { keepMs: 1000 })).toBe(0);
    await clock.advanceMs(1);
    expect(await sweep(client, { keepMs: 1000 })).toBe(1);
  });

  test("is bounded: the longest finished first", async () => {
    const ids = await many(5);
    for (const id of [...ids].reverse()) {
      await cancel(client, id);
      await clock.advanceMs(1);
    }
    const [{ removed }] = (await rows(client, "SELECT workhorse.sweep_v1(2, 0) AS removed")) as [{ removed: number }];
    expect(removed).toBe(2);
    expect((await rows(client, "SELECT id FROM workhorse.job ORDER BY id")).map(({ id }) => id)).toEqual(
      ids.slice(0, 3),
    );
  });

  test("leaves unfinished jobs alone, however old", async () => {
    await many(2);
    await many(1, { delayMs: 1000 });
    await claim(client, queue);
    await clock.advanceMs(400 * DAY_MS);
    await sweep(client, { keepMs: 0 });
    expect(await states()).toEqual({ ready: 1, scheduled: 1, active: 1 });
  });

  test("removes back-offs that are over, and only those", async () => {
    await backOff(client, queue, null, 1000);
    await backOff(client, queue, "k", 2000);
    await clock.advanceMs(1000);
    expect(await sweep(client)).toBe(1);
    expect(await rows(client, "SELECT concurrency_key FROM workhorse.back_off")).toEqual([{ concurrency_key: "k" }]);
    await clock.advanceMs(1000);
    expect(await sweep(client)).toBe(1);
  });

  describe("what admission keeps", () => {
    const kept = async () => ({
      lanes: (await rows(client, "SELECT FROM workhorse.lane WHERE queue_name = $1", [queue])).length,
      changes: (await rows(client, "SELECT FROM workhorse.rate_limit_change WHERE queue_name = $1", [queue])).length,
      admission: (await rows(client, "SELECT FROM workhorse.queue_admission WHERE queue_name = $1", [queue])).length,
    });
    const rate: Rate = { limit: 1, intervalMs: 1000, burst: 10 };

    test("a thousand one-shot keys vanish once full, in bounded steps; those still empty stay", async () => {
      const fast: Rate = { limit: 1000, intervalMs: 1, burst: 2000 };
      await syncRateLimits(client, queue, [{ queue, rate: fast, perKey: { ...rate, burst: 1 } }]);
      await enqueue(client, ...Array.from({ length: 900 }, (_, i) => ({ queue, concurrencyKey: `k${i}` })));
      expect((await claim(client, queue, { most: 900 })).jobs).toHaveLength(900);
      await clock.advanceMs(999);
      await sweep(client);
      expect((await kept()).lanes).toBe(900);
      await clock.advanceMs(1);
      const [{ removed }] = (await rows(client, "SELECT workhorse.sweep_v1(100) AS removed")) as [{ removed: number }];
      expect(removed).toBeLessThanOrEqual(100);
      for (let i = 0; i < 12; i++) await sweep(client, { limit: 100 });
      expect((await kept()).lanes).toBe(0);
    });

    test("also by claims alone, in bounded steps, without a sweep", async () => {
      const fast: Rate = { limit: 1000, intervalMs: 1, burst: 2000 };
      await syncRateLimits(client, queue, [{ queue, rate: fast, perKey: { ...rate, burst: 1 } }]);
      for (let round = 0; round < 12; round++) {
        await enqueue(client, ...Array.from({ length: 100 }, (_, i) => ({ queue, concurrencyKey: `${round} ${i}` })));
        expect((await claim(client, queue, { most: 100 })).jobs).toHaveLength(100);
        await clock.advanceMs(1000);
      }
      expect((await kept()).lanes).toBeLessThan(400);
    });

    test("a deleted limit's leftovers vanish once its buckets are full again, and not before", async () => {
      await syncRateLimits(client, queue, [{ queue, rate, perKey: { ...rate, limit: 2 } }]);
      await many(8, { concurrencyKey: "k" });
      expect((await claim(client, queue, { most: 8 })).jobs).toHaveLength(8);
      await syncRateLimits(client, queue, []);
      await clock.advanceMs(7_999); // the key is full by now
      await sweep(client);
      await sweep(client);
      expect(await kept()).toMatchObject({ lanes: 0, admission: 1 });
      expect((await kept()).changes).toBeGreaterThan(0);
      await clock.advanceMs(1);
      await sweep(client);
      expect(await kept()).toEqual({ lanes: 0, changes: 0, admission: 0 });
    });

    test("the bucket of a deleted limit that comes back in time is the same with sweeps as without", async () => {
      await syncRateLimits(client, queue, [{ queue, rate }]);
      await many(30);
      expect((await claim(client, queue, { most: 10 })).jobs).toHaveLength(10);
      await syncRateLimits(client, queue, []);
      await clock.advanceMs(4_000);
      await sweep(client);
      await syncRateLimits(client, queue, [{ queue, rate }]);
      await sweep(client);
      expect((await claim(client, queue, { most: 30 })).jobs).toHaveLength(4);
    });

    test("a limit that is made anew after it was forgotten starts full, on a queue with caps as well", async () => {
      await syncCaps(client, queue, [{ queue, maxActive: 1000, maxActivePerKey: 1000 }]);
      for (let life = 0; life < 3; life++) {
        for (let burst = 1; burst < 5; burst++) {
          await syncRateLimits(client, queue, [{ queue, rate: { ...rate, burst }, perKey: { ...rate, burst } }]);
        }
        await many(9, { concurrencyKey: "k" });
        await clock.advanceMs(10_000);
        expect((await claim(client, queue, { most: 9 })).jobs).toHaveLength(4);
        await client.query("SELECT workhorse.cancel_v1(id) FROM workhorse.job WHERE state = 'ready'");
        await syncRateLimits(client, queue, []);
        await clock.advanceMs(10_000);
        await claim(client, queue);
        for (let i = 0; i < 3; i++) await sweep(client, { limit: 1 });
        expect((await kept()).changes).toBe(0);
      }
    });
  });
});

describe("rebuild_lanes_v1", () => {
  test.each([null, "", "x".repeat(257)])("refuses the queue %j", async (name) => {
    const refusal = await refusalOf(client.query("SELECT workhorse.rebuild_lanes_v1($1)", [name]));
    expect(refusal).toMatchObject({ code: "WH002", message: expect.stringContaining("accepted: 1 to 256 bytes") });
  });

  const limits = {
    rate: { limit: 100, intervalMs: 1, burst: 100 },
    perKey: { limit: 1, intervalMs: DAY_MS, burst: 2 },
  };
  const startedKeys = async () => (await claim(client, queue, { most: 10 })).jobs.map((job) => job.concurrency_key);

  test.each([
    ["heads were moved", "head = head + 1000000"],
    ["lanes were made to wait", "opens_us = 9000000000000000000, waits_for = 'tokens'"],
    ["lanes were made idle", "head = NULL, opens_us = NULL, waits_for = NULL"],
  ])("after %s: finds the jobs again, and gives no bucket anything", async (_, damage) => {
    await syncRateLimits(client, queue, [{ queue, ...limits }]);
    await enqueue(client, { queue, concurrencyKey: "spent" }, { queue, concurrencyKey: "spent" });
    expect(await startedKeys()).toEqual(["spent", "spent"]);
    await enqueue(client, ...["spent", "a", "b", "a"].map((concurrencyKey) => ({ queue, concurrencyKey })));
    expect((await claim(client, queue)).jobs).toMatchObject([{ concurrency_key: "a" }]);
    await client.query(`UPDATE workhorse.lane SET ${damage} WHERE queue_name = $1`, [queue]);
    expect(await startedKeys()).toEqual([]);
    await listener.taken();
    await client.query("SELECT workhorse.rebuild_lanes_v1($1)", [queue]);
    expect(await listener.taken()).toEqual([queue]);
    expect(await startedKeys()).toEqual(["b", "a"]);
    expect(await startedKeys()).toEqual([]);
  });
});
