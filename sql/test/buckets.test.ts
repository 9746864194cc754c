import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import {
  cancel,
  claim,
  complete,
  enqueue,
  fail,
  type Rate,
  release,
  rows,
  sweep,
  sweepStep,
  syncRateLimits,
} from "./support/calls";
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

/** A queue of each test's own. */
let queue: string;
let queues = 0;
beforeEach(() => {
  queue = `q${queues++}`;
});

const second = (limit: number, burst: number): Rate => ({ limit, intervalMs: 1000, burst });
const define = (rate: Rate | null, perKey: Rate | null = null, namespace = queue) =>
  syncRateLimits(client, namespace, rate ? [{ queue, rate, perKey }] : []);
/** Enough jobs of a key (null: none). */
const backlog = (count: number, key: string | null = null) =>
  enqueue(
    client,
    ...Array.from({ length: count }, () => ({ queue, ...(key === null ? {} : { concurrencyKey: key }) })),
  );
/** How many jobs a claim of up to `most` starts. */
const starts = async (most = 100): Promise<number> => (await claim(client, queue, { most })).jobs.length;
const available = async (): Promise<number | undefined> =>
  (await rows(client, "SELECT available_tokens FROM workhorse.rate_limit_statuses_v1(ARRAY[$1])", [queue]))[0]
    ?.available_tokens;

describe("the queue's bucket", () => {
  test("starts full, and fills at the rate up to the burst", async () => {
    await define(second(2, 5));
    await backlog(20);
    expect(await starts()).toBe(5);
    await clock.advanceMs(499);
    expect(await starts()).toBe(0);
    await clock.advanceMs(1);
    expect(await starts()).toBe(1);
    await clock.advanceMs(60_000);
    expect(await starts()).toBe(5);
  });

  test("raising the burst gives nothing away; lowering it cuts", async () => {
    await define(second(1, 3));
    await backlog(20);
    expect(await starts(2)).toBe(2);
    await define(second(1, 100));
    expect(await available()).toBe(1);
    await clock.advanceMs(5_000);
    expect(await available()).toBe(6);
    await define(second(1, 2));
    expect(await available()).toBe(2);
    await define(second(1, 100));
    expect(await starts()).toBe(2);
  });

  test("is refilled at the old rate up to the change, and carries its fraction of a token", async () => {
    await define(second(1, 1));
    await backlog(5);
    await starts();
    await clock.advanceMs(400); // 0.4 of a token at the old rate
    await define({ limit: 1, intervalMs: 60_000, burst: 1 });
    const { answer } = await claim(client, queue);
    expect(answer).toEqual({ nextUs: clock.nowUs + 36_000_000n, waitMs: 36_000, reason: "tokens" });
    await clock.advanceMs(36_000);
    expect(await starts()).toBe(1);
  });

  test("an identical definition changes no balance", async () => {
    await define(second(1, 3));
    await backlog(5);
    await starts(2);
    const row = () => rows(client, "SELECT * FROM workhorse.queue_admission WHERE queue_name = $1", [queue]);
    const before = await row();
    await clock.advanceMs(10);
    await define(second(1, 3));
    expect(await row()).toEqual(before);
    expect(await starts()).toBe(1);
  });

  test("a deleted policy leaves it behind; one made anew takes it over, also for another namespace", async () => {
    await define(second(1, 4));
    await backlog(20);
    expect(await starts()).toBe(4);
    await define(null);
    await clock.advanceMs(2_000);
    await define(second(1, 10), null, `${queue} new owner`);
    expect(await starts()).toBe(2);
  });

  test("what was started while there was no policy costs nothing", async () => {
    await define(second(1, 4));
    await backlog(20);
    await starts(1);
    await define(null);
    expect(await starts(10)).toBe(10);
    await define(second(1, 4));
    expect(await starts()).toBe(3);
  });

  test("a deleted policy's bucket that would be full again is as if it never was", async () => {
    await define(second(1, 4));
    await backlog(20);
    expect(await starts()).toBe(4);
    await define(null);
    await clock.advanceMs(3_999);
    await define(second(1, 10));
    expect(await available()).toBe(3);
    await starts();
    await define(null);
    await clock.advanceMs(10_000);
    await define(second(1, 12));
    expect(await starts()).toBe(12);
  });

  test("no outcome refunds a token: complete, fail, release, cancel, an expired lease", async () => {
    await define(second(1, 6));
    await backlog(6);
    const { jobs } = await claim(client, queue, { most: 5, leaseMs: 1000 });
    await complete(client, jobs[0]!);
    await fail(client, jobs[1]!);
    await release(client, jobs[2]!, 0);
    await cancel(client, jobs[3]!.id);
    expect(await available()).toBe(1);
    await clock.advanceMs(1000); // the lease of the fifth
    await client.query("SELECT workhorse.recover_expired_v1()");
    expect(await available()).toBe(2);
    await define(second(1, 6), second(1, 1));
    expect(await available()).toBe(2);
  });

  test("counts its starts for ever", async () => {
    const count = async () =>
      (await rows(client, "SELECT starts FROM workhorse.rate_limit_statuses_v1(ARRAY[$1])", [queue]))[0]?.starts;
    await define(second(1, 4));
    expect(await count()).toBe("0");
    await backlog(20, "k");
    await starts();
    await define(second(1, 4), second(1, 4));
    await clock.advanceMs(2_000);
    await starts();
    expect(await count()).toBe("6");
  });

  test("a claim that rolls back spent nothing", async () => {
    await define(second(1, 4), second(1, 3));
    await backlog(20, "k");
    await client.query("BEGIN");
    expect(await starts()).toBe(3);
    await client.query("ROLLBACK");
    expect(await starts()).toBe(3);
    expect(await available()).toBe(1);
  });
});

describe("the keys' buckets", () => {
  test("a keyed job costs one token of each, both or neither; a keyless one only the queue's", async () => {
    await define(second(1, 5), second(1, 2));
    await backlog(3, "a");
    await backlog(1);
    expect(await starts()).toBe(3); // two of a, one keyless
    expect(await available()).toBe(2);
    expect(await starts()).toBe(0); // a has no token: nothing of the queue's was spent
    expect(await available()).toBe(2);
    await backlog(3, "b");
    expect(await starts()).toBe(2); // b had three jobs and two tokens
    expect(await available()).toBe(0);
    await clock.advanceMs(1000);
    expect(await starts()).toBe(1);
  });

  test("are separate in each queue", async () => {
    await define(second(1, 5), second(1, 1));
    await backlog(2, "a");
    expect(await starts()).toBe(1);
    queue = `${queue} other`;
    await define(second(1, 5), second(1, 1));
    await backlog(2, "a");
    expect(await starts()).toBe(1);
  });

  test("raising the key burst gives nothing away, neither to keys that were drawn from nor to those never seen", async () => {
    await define(second(100, 1000), second(1, 2));
    await backlog(20, "drawn");
    expect(await starts(1)).toBe(1);
    await define(second(100, 1000), second(1, 10));
    expect(await starts()).toBe(1);
    await backlog(20, "never seen");
    expect(await starts()).toBe(2); // full under the old definition
    await clock.advanceMs(3_000);
    await backlog(20, "seen later");
    const { jobs } = await claim(client, queue, { most: 100 });
    const count = (key: string) => jobs.filter(({ concurrency_key }) => concurrency_key === key).length;
    expect([count("drawn"), count("never seen"), count("seen later")]).toEqual([3, 3, 5]);
    await clock.advanceMs(100_000);
    expect(await starts()).toBe(30);
  });

  test("perKey taken away leaves them behind, and perKey made anew takes them over", async () => {
    await define(second(100, 1000), second(1, 4));
    await backlog(30, "a");
    expect(await starts()).toBe(4);
    await define(second(100, 1000), null);
    expect(await starts(3)).toBe(3);
    await clock.advanceMs(2_000);
    await define(second(100, 1000), second(1, 8));
    expect(await starts()).toBe(2);
    await define(second(100, 1000), null);
    await clock.advanceMs(8_000); // full again
    await define(second(100, 1000), second(1, 9));
    expect(await starts()).toBe(9);
  });

  test("a change of the queue's own rate leaves them as they are", async () => {
    await define(second(100, 1000), second(1, 4));
    await backlog(30, "a");
    expect(await starts(3)).toBe(3);
    await clock.advanceMs(500);
    await define(second(7, 77), second(1, 4));
    await clock.advanceMs(500);
    expect(await starts()).toBe(2);
  });

  test("a key that waits under a slow limit opens as soon as a faster one allows, whatever became of its jobs", async () => {
    const day: Rate = { limit: 1, intervalMs: 86_400_000, burst: 1 };
    await define(second(100, 1000), day);
    const [, waiting] = await backlog(2, "a");
    expect(await starts()).toBe(1);
    await cancel(client, waiting!);
    await define(second(100, 1000), second(1, 1));
    await backlog(1, "b"); // a claim that judges the keys under the new limits while a has no job
    expect(await starts(1)).toBe(1);
    await backlog(1, "a");
    const { answer } = await claim(client, queue);
    expect(answer!.waitMs).toBe(1000);
    await clock.advanceMs(1000);
    expect(await starts()).toBe(1);
  });

  test("full ones need no row: clean-up removes it, and nothing else changes", async () => {
    const lanes = async () =>
      (await rows(client, "SELECT concurrency_key FROM workhorse.lane WHERE queue_name = $1 ORDER BY 1", [queue])).map(
        ({ concurrency_key }) => concurrency_key,
      );
    await define(second(100, 1000), second(1, 4));
    for (const key of ["a", "b", "c"]) await backlog(1, key);
    expect(await starts()).toBe(3);
    await backlog(4, "b");
    expect(await starts()).toBe(3);
    expect(await lanes()).toEqual(["a", "b", "c"]);
    await clock.advanceMs(1000);
    await sweep(client);
    expect(await lanes()).toEqual(["b"]); // it has a job waiting, and three tokens missing
    expect(await starts()).toBe(1);
    await clock.advanceMs(4000);
    await sweep(client);
    expect(await lanes()).toEqual([]);
    await backlog(9, "b");
    expect(await starts()).toBe(4);
  });

  test("a sweep in small steps keeps the changes that keys are still to be carried over", async () => {
    const keys = ["a", "b", "c", "d", "e"];
    const perKey: Rate = { limit: 1, intervalMs: 1000, burst: 2 };
    await define(second(1000, 1000), perKey);
    for (const key of keys) await backlog(9, key);
    expect(await starts()).toBe(10);
    await sweepStep(client, queue, 2); // a and b, under the first definition
    await clock.advanceMs(500); // half a token each
    await define(second(1000, 1000), { ...perKey, intervalMs: 60_000 });
    await backlog(1);
    expect(await starts(1)).toBe(1); // keyless: the queue's own bucket is past the change
    for (let i = 0; i < 4; i++) await sweepStep(client, queue, 2);
    await clock.advanceMs(29_999);
    expect(await starts()).toBe(0);
    await clock.advanceMs(1);
    expect(await starts()).toBe(5);
  });

  test("changes that no bucket needs any more do not pile up", async () => {
    for (let burst = 2; burst < 40; burst++) {
      await define(second(1, burst), burst % 2 ? second(1, burst) : second(1, 1));
      await backlog(1, "a");
      await clock.advanceMs(1000);
      await starts();
    }
    await sweep(client);
    await sweep(client);
    const left = () => rows(client, "SELECT FROM workhorse.rate_limit_change WHERE queue_name = $1", [queue]);
    expect(await left()).toHaveLength(1);
    // Nor those of a queue whose limit per key stays as it is.
    for (let burst = 2; burst < 40; burst++) {
      await define(second(1, burst));
      await clock.advanceMs(1000);
      await backlog(1);
      await starts();
    }
    await sweep(client);
    await sweep(client);
    expect(await left()).toHaveLength(1);
  });
});
