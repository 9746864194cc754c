import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { claim, enqueue, type Rate, rows, syncRateLimits } from "./support/calls";
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

describe("over a long run, starts are neither above nor below the ideal:", () => {
  test("7 per minute, by a worker that asks at next_eligible_at", async () => {
    const rate: Rate = { limit: 7, intervalMs: 60_000, burst: 3 };
    await define(rate);
    await backlog(300);
    const startUs = clock.nowUs;
    let started = 0;
    while (started < 200) {
      const { jobs, answer } = await claim(client, queue, { most: 10 });
      started += jobs.length;
      const elapsed = clock.nowUs - startUs;
      expect(BigInt(started)).toBe(3n + (7n * elapsed) / 60_000_000n);
      expect(jobs.length).toBe(elapsed === 0n ? 3 : 1);
      // Not a microsecond late: the first at which the ideal has one more token.
      const next = ((BigInt(started) - 2n) * 60_000_000n + 6n) / 7n;
      expect(answer!.nextUs).toBe(startUs + next);
      expect(answer!.waitMs).toBe(Number((next - elapsed + 999n) / 1000n));
      await clock.set(answer!.nextUs!);
    }
  });

  test("1 per day, asked at odd moments for half a year", async () => {
    const rate: Rate = { limit: 1, intervalMs: 86_400_000, burst: 2 };
    await define(rate);
    await backlog(200);
    const startUs = clock.nowUs;
    let started = 0;
    for (let asked = 0; asked < 300; asked++) {
      started += await starts(10);
      expect(started).toBe(2 + Number((clock.nowUs - startUs) / 86_400_000_000n));
      await clock.advance(51_839_999_983n);
    }
    expect(started).toBeGreaterThan(180);
  });

  test("1,000,000 per ms, at each microsecond", async () => {
    await define({ limit: 1_000_000, intervalMs: 1, burst: 1500 });
    await backlog(5_000);
    expect(await starts(1000)).toBe(1000);
    expect(await starts(1000)).toBe(500);
    for (let us = 0; us < 3; us++) {
      await clock.advance(1);
      expect(await starts(1000)).toBe(1000);
      const { jobs, answer } = await claim(client, queue, { most: 1000 });
      expect(jobs).toEqual([]);
      expect(answer).toEqual({ nextUs: clock.nowUs + 1n, waitMs: 1, reason: "tokens" });
    }
  });

  test("one key among others at 7 per minute, each as if it were alone", async () => {
    await define(second(1000, 1000), { limit: 7, intervalMs: 60_000, burst: 3 });
    for (const key of ["a", "b", "c"]) await backlog(50, key);
    const startUs = clock.nowUs;
    const started: Record<string, number> = { a: 0, b: 0, c: 0 };
    for (let asked = 0; asked < 80; asked++) {
      for (const { concurrency_key } of (await claim(client, queue, { most: 50 })).jobs)
        started[concurrency_key!]! += 1;
      const ideal = 3 + Number((7n * (clock.nowUs - startUs)) / 60_000_000n);
      expect(started).toEqual({ a: ideal, b: ideal, c: ideal });
      await clock.advance(4_001_003);
    }
  });
});

describe("the clock", () => {
  test("stepping back adds nothing and moves no reading back", async () => {
    await define(second(1, 3), second(1, 3));
    await backlog(30, "a");
    await clock.advanceMs(10_000);
    expect(await starts()).toBe(3);
    const atUs = clock.nowUs;
    for (let back = 0; back < 5; back++) {
      await clock.advanceMs(-1_000);
      const { jobs, answer } = await claim(client, queue);
      expect(jobs).toEqual([]);
      expect(answer!.nextUs).toBe(atUs + 1_000_000n);
    }
    await clock.set(atUs + 999_999n);
    expect(await starts()).toBe(0);
    await clock.advance(1);
    expect(await starts()).toBe(1);
  });

  test("a key that comes to wait while the clock is back is found when its time comes", async () => {
    await define(second(100, 1000), second(1, 1));
    await clock.advanceMs(60_000);
    await backlog(1);
    expect(await starts()).toBe(1); // keyless: the claim has looked at all that opens up to now
    await clock.advanceMs(-30_000);
    await backlog(2, "a");
    const { jobs, answer } = await claim(client, queue, { most: 2 });
    expect(jobs).toHaveLength(1);
    expect(answer).toMatchObject({ reason: "key_tokens", nextUs: clock.nowUs + 1_000_000n });
    await clock.advanceMs(1_000);
    expect(await starts()).toBe(1);
  });

  test.each([
    ["1,000,000 per ms", { limit: 1_000_000, intervalMs: 1, burst: 1_000_000 }],
    ["1,000,000 per day", { limit: 1_000_000, intervalMs: 86_400_000, burst: 1_000_000 }],
  ])("ten idle years overflow nothing at %s, nor a change after them", async (_, rate) => {
    const years = 315_360_000_000_000n;
    await define(rate, rate);
    await backlog(3, "a");
    await starts(1);
    await clock.advance(years);
    expect(await available()).toBe(1_000_000);
    expect(await starts(1)).toBe(1);
    await clock.advance(years);
    await define({ limit: 1, intervalMs: 1, burst: 1_000_000 }, { ...rate, burst: 999_999 });
    expect(await available()).toBe(1_000_000);
    await define(null);
    await clock.advance(years);
    await define(rate, rate);
    expect(await starts(1)).toBe(1);
    expect(await available()).toBe(999_999);
  });
});
