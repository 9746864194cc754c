import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { backOff, claim, enqueue, type Rate, rows, syncCaps, syncRateLimits } from "./support/calls";
import { TestClock } from "./support/clock";
import { refusalOf } from "./support/refusal";
import { Listener } from "./support/sessions";

let database: TestDatabase;
let client: Client;
let listener: Listener;
let clock: TestClock;
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
  clock = await TestClock.install(client);
  listener = await Listener.start(await database.connect());
});
afterAll(() => database.drop());

let queue: string;
let queues = 0;
beforeEach(async () => {
  queue = `q${queues++}`;
  await listener.taken();
});

const rate: Rate = { limit: 1, intervalMs: 1000, burst: 5 };
const until = async (key: string | null) =>
  (
    await rows(
      client,
      "SELECT workhorse.to_us(until) AS us, reason FROM workhorse.back_off WHERE (queue_name, concurrency_key) = ($1, $2)",
      [queue, key ?? ""],
    )
  )[0];
const keysOf = async (most = 10) => (await claim(client, queue, { most })).jobs.map((job) => job.concurrency_key);
const enqueueKeys = (...keys: (string | null)[]) =>
  enqueue(client, ...keys.map((key) => ({ queue, ...(key === null ? {} : { concurrencyKey: key }) })));

describe("a queue's back-off", () => {
  test("closes it to new starts for the duration, returns until when, and says so in a claim's answer", async () => {
    await enqueueKeys("a", null);
    const [returned] = await rows(
      client,
      "SELECT workhorse.to_us(workhorse.back_off_v1($1, NULL, 1500, 'the API said 429')) AS us",
      [queue],
    );
    expect(BigInt(returned!.us)).toBe(clock.nowUs + 1_500_000n);
    expect(await until(null)).toEqual({ us: returned!.us, reason: "the API said 429" });
    expect(await claim(client, queue)).toEqual({
      jobs: [],
      answer: { nextUs: clock.nowUs + 1_500_000n, waitMs: 1500, reason: "backed_off" },
    });
    await clock.advance(1_499_999);
    expect(await keysOf()).toEqual([]);
    await clock.advance(1);
    expect(await keysOf()).toEqual(["a", null]);
  });

  test("leaves active jobs and enqueues alone", async () => {
    await enqueueKeys(null);
    const { jobs } = await claim(client, queue);
    await backOff(client, queue, null, 1000);
    await enqueueKeys(null);
    await client.query("SELECT workhorse.complete_v1($1, $2)", [jobs[0]!.id, jobs[0]!.fence_token]);
  });

  test("adds no tokens and takes none: the bucket goes on filling meanwhile", async () => {
    await syncRateLimits(client, queue, [{ queue, rate }]);
    await enqueueKeys(...Array(20).fill(null));
    expect(await keysOf()).toHaveLength(5);
    await backOff(client, queue, null, 3000);
    await clock.advanceMs(3000);
    expect(await keysOf()).toHaveLength(3);
  });

  test("the longest in force counts, with its reason", async () => {
    await enqueueKeys(null);
    await backOff(client, queue, null, 3000, "long");
    await backOff(client, queue, null, 1000, "short");
    expect(await until(null)).toEqual({ us: String(clock.nowUs + 3_000_000n), reason: "long" });
    await clock.advanceMs(2500);
    await backOff(client, queue, null, 1000, "longer");
    expect(await until(null)).toEqual({ us: String(clock.nowUs + 1_000_000n), reason: "longer" });
    await clock.advanceMs(1000);
    expect(await keysOf()).toHaveLength(1);
    await backOff(client, queue, null, 100, "after it was over");
    expect(await until(null)).toMatchObject({ us: String(clock.nowUs + 100_000n) });
  });

  test("is lifted early with 0, which wakes the workers", async () => {
    await enqueueKeys(null);
    await backOff(client, queue, null, 60_000);
    await listener.taken();
    const [lifted] = await rows(client, "SELECT workhorse.back_off_v1($1, NULL, 0) AS until", [queue]);
    expect(lifted!.until).toBeNull();
    expect(await listener.taken()).toEqual([queue]);
    expect(await keysOf()).toEqual([null]);
  });

  test("the reason of an answer is what holds longest", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: { ...rate, burst: 1, intervalMs: 10_000 } }]);
    await enqueueKeys(null, null);
    expect(await keysOf(1)).toHaveLength(1);
    await backOff(client, queue, null, 5000);
    expect((await claim(client, queue)).answer).toMatchObject({ reason: "tokens", waitMs: 10_000 });
    await backOff(client, queue, null, 15_000);
    expect((await claim(client, queue)).answer).toMatchObject({ reason: "backed_off", waitMs: 15_000 });
  });

  test("an empty queue is empty, backed off or not", async () => {
    await backOff(client, queue, null, 5000);
    expect((await claim(client, queue)).answer).toEqual({ nextUs: null, waitMs: null, reason: "empty" });
  });
});

describe("a key's back-off", () => {
  const limits: [name: string, apply: () => Promise<unknown>][] = [
    ["without limits", async () => {}],
    ["with a rate limit", () => syncRateLimits(client, queue, [{ queue, rate: { ...rate, burst: 100 } }])],
    [
      "with limits per key",
      async () => {
        await syncRateLimits(client, queue, [{ queue, rate: { ...rate, burst: 100 }, perKey: rate }]);
        await syncCaps(client, queue, [{ queue, maxActive: 100, maxActivePerKey: 50 }]);
      },
    ],
  ];
  test.each(limits)("closes that key alone, of a queue %s", async (_, apply) => {
    await apply();
    await enqueueKeys("a", "b", "a", null, "a");
    await backOff(client, queue, "a", 1500);
    await backOff(client, `${queue} other`, "b", 1500);
    const { jobs, answer } = await claim(client, queue, { most: 10 });
    expect(jobs.map((job) => job.concurrency_key)).toEqual(["b", null]);
    expect(answer).toEqual({ nextUs: clock.nowUs + 1_500_000n, waitMs: 1500, reason: "backed_off" });
    await clock.advance(1_499_999);
    expect(await keysOf()).toEqual([]);
    await clock.advance(1);
    expect(await keysOf()).toEqual(["a", "a", "a"]);
  });

  test("costs no token of either bucket", async () => {
    await syncRateLimits(client, queue, [{ queue, rate, perKey: { ...rate, burst: 2 } }]);
    await enqueueKeys("a", "a", "a", "a");
    await backOff(client, queue, "a", 1000);
    expect(await keysOf()).toEqual([]);
    await clock.advanceMs(1000);
    expect(await keysOf()).toEqual(["a", "a"]);
    const [status] = await rows(client, "SELECT available_tokens FROM workhorse.rate_limit_statuses_v1(ARRAY[$1])", [
      queue,
    ]);
    expect(status!.available_tokens).toBe(3);
  });

  test("is lifted early with 0, which wakes the workers, whatever else the queue waits for", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: { ...rate, burst: 100 }, perKey: { ...rate, burst: 1 } }]);
    await enqueueKeys("a", "a", "b");
    await backOff(client, queue, "b", 60_000);
    const { jobs, answer } = await claim(client, queue, { most: 5 });
    expect(jobs.map((job) => job.concurrency_key)).toEqual(["a"]);
    expect(answer).toMatchObject({ reason: "key_tokens", waitMs: 1000 }); // a's next token comes first
    await listener.taken();
    await backOff(client, queue, "b", 0);
    expect(await listener.taken()).toEqual([queue]);
    expect(await keysOf()).toEqual(["b"]);
  });

  test("that is made longer while the key waits is kept to", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: { ...rate, burst: 100 }, perKey: rate }]);
    await enqueueKeys("a");
    await backOff(client, queue, "a", 1000);
    expect(await keysOf()).toEqual([]);
    await backOff(client, queue, "a", 5000);
    await clock.advanceMs(1000);
    expect(await claim(client, queue)).toMatchObject({ jobs: [], answer: { waitMs: 4000, reason: "backed_off" } });
    await clock.advanceMs(4000);
    expect(await keysOf()).toEqual(["a"]);
  });
});

describe("a back-off is refused", () => {
  test.each<[arguments_: unknown[], problem: string]>([
    [[null, null, 5], "queue is null; accepted: 1 to 256 bytes"],
    [["", null, 5], "queue has 0 bytes; accepted: 1 to 256 bytes"],
    [["q", "", 5], "key has 0 bytes; accepted: 1 to 256 bytes"],
    [["q", "é".repeat(129), 5], "key has 258 bytes; accepted: 1 to 256 bytes"],
    [["q", null, null], "delay is null ms; accepted: 0 to 31,536,000,000 ms (365 days)"],
    [["q", null, -1], "delay is -1 ms; accepted: 0 to 31,536,000,000 ms (365 days)"],
    [["q", null, 31_536_000_001], "delay is 31536000001 ms; accepted: 0 to 31,536,000,000 ms (365 days)"],
    [["q", null, 5, "x".repeat(1001)], "reason has 1001 characters; accepted: at most 1,000"],
  ])("%j", async (arguments_, problem) => {
    const call = `SELECT workhorse.back_off_v1(${arguments_.map((_, i) => `$${i + 1}`)})`;
    const refusal = await refusalOf(client.query(call, arguments_));
    expect(refusal).toMatchObject({ code: "WH002", message: `invalid call of back_off_v1: ${problem}` });
  });
});
