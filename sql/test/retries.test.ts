import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { claim, enqueue, fail, jobRow, rows, type Started } from "./support/calls";
import { TestClock } from "./support/clock";
import { refusalOf } from "./support/refusal";

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
beforeEach(() => {
  queue = `q${queues++}`;
});

const YEAR_MS = 31_536_000_000;

async function started(more: object = {}): Promise<Started> {
  await enqueue(client, { queue, ...more });
  return (await claim(client, queue)).jobs[0]!;
}

/** Fails a new job so many times and returns the delays, having waited for each. */
async function delaysOf(retryPolicy: object | undefined, times: number): Promise<number[]> {
  const delays: number[] = [];
  let job = await started({ maxAttempts: times + 1, ...(retryPolicy ? { retryPolicy } : {}) });
  for (let i = 0; i < times; i++) {
    const outcome = await fail(client, job);
    expect(outcome.state).toBe(outcome.delayMs === 0 ? "ready" : "scheduled");
    const row = await jobRow(client, job.id);
    expect(row).toMatchObject({ retry_rule: outcome.rule, retry_delay_ms: String(outcome.delayMs), attempt: i + 1 });
    expect(row.run_at).toEqual(new Date(Number(clock.nowUs / 1000n) + outcome.delayMs!));
    delays.push(outcome.delayMs!);
    await clock.advanceMs(outcome.delayMs!);
    job = (await claim(client, queue)).jobs[0]!;
    expect(job.attempt).toBe(i + 2);
  }
  return delays;
}

describe("a failed job with attempts left comes back after what its policy says:", () => {
  test("fixed", async () => {
    expect(await delaysOf({ kind: "fixed", delayMs: 1234 }, 3)).toEqual([1234, 1234, 1234]);
    expect(await delaysOf({ kind: "fixed", delayMs: 0 }, 2)).toEqual([0, 0]);
  });

  test("exponential, up to its longest", async () => {
    const policy = { kind: "exponential", initialDelayMs: 100, multiplier: 2.5, maxDelayMs: 1500 };
    expect(await delaysOf(policy, 5)).toEqual([100, 250, 625, 1500, 1500]);
  });

  test("exponential without growth, and with more than numbers can hold", async () => {
    expect(await delaysOf({ kind: "exponential", initialDelayMs: 7, multiplier: 1, maxDelayMs: 100 }, 3)).toEqual([
      7, 7, 7,
    ]);
    const steep = JSON.stringify({
      kind: "exponential",
      initialDelayMs: YEAR_MS,
      multiplier: 100,
      maxDelayMs: YEAR_MS,
    });
    const flat = JSON.stringify({ kind: "exponential", initialDelayMs: 1, multiplier: 1.000001, maxDelayMs: YEAR_MS });
    for (const [policy, delay] of [
      [steep, String(YEAR_MS)],
      [flat, "3"],
    ]) {
      const [late] = await rows(client, "SELECT * FROM workhorse.retry_delay($1, 1, 1000000, 1)", [policy]);
      expect(late).toMatchObject({ delay_ms: delay, rule: "exponential" });
    }
  });

  test("decorrelated jitter: between the base and three times the one before, and the same whenever it is told", async () => {
    const policy = { kind: "decorrelated-jitter", baseDelayMs: 1000, maxDelayMs: 20_000 };
    const all = new Set<number>();
    for (let i = 0; i < 10; i++) {
      let previous = 1000;
      for (const delay of await delaysOf(policy, 5)) {
        expect(delay).toBeGreaterThanOrEqual(1000);
        expect(delay).toBeLessThanOrEqual(Math.min(20_000, 3 * previous));
        previous = delay;
        all.add(delay);
      }
    }
    expect(all.size).toBeGreaterThan(30);
    const tell = () =>
      rows(
        client,
        "SELECT array_agg(d.delay_ms) AS delays FROM generate_series(1, 50) AS j, generate_series(1, 5) AS a, workhorse.retry_delay($1, j, a, 2000) AS d",
        [JSON.stringify(policy)],
      );
    expect(await tell()).toEqual(await tell());
  });

  test("without a policy: count^4 + 15 + floor(random() * 10) * (count + 1) seconds, count being the earlier failures", async () => {
    const random = new Set<number>();
    for (let count = 0; count < 25; count++) {
      const told = await rows(
        client,
        "SELECT d.* FROM generate_series(1, 40) AS j, workhorse.retry_delay(NULL, j, $1, NULL) AS d",
        [count + 1],
      );
      for (const { delay_ms, rule } of told) {
        expect(rule).toBe("default");
        const steps = (Number(delay_ms) / 1000 - count ** 4 - 15) / (count + 1);
        expect([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]).toContain(steps);
        random.add(steps);
      }
    }
    expect(random.size).toBe(10);
    const [late] = await rows(client, "SELECT * FROM workhorse.retry_delay(NULL, 1, 1000000, NULL)");
    expect(Number(late!.delay_ms)).toBe(YEAR_MS);
    const [first, second] = await delaysOf(undefined, 2);
    expect(first).toBeGreaterThanOrEqual(15_000);
    expect(first).toBeLessThanOrEqual(24_000);
    expect(second).toBeGreaterThanOrEqual(16_000);
    expect(second).toBeLessThanOrEqual(34_000);
  });

  test("a release in between is no failure", async () => {
    const policy = { kind: "exponential", initialDelayMs: 100, multiplier: 2, maxDelayMs: 10_000 };
    let job = await started({ retryPolicy: policy });
    expect((await fail(client, job)).delayMs).toBe(100);
    await clock.advanceMs(100);
    job = (await claim(client, queue)).jobs[0]!;
    await client.query("SELECT workhorse.release_v1($1, $2, 0)", [job.id, job.fence_token]);
    job = (await claim(client, queue)).jobs[0]!;
    expect((await fail(client, job)).delayMs).toBe(200);
  });
});

describe("a failed job", () => {
  test("keeps its error, and says which rule chose the delay", async () => {
    const job = await started({ retryPolicy: { kind: "fixed", delayMs: 5 } });
    const outcome = await fail(client, job, { error: { name: "Error", message: "boom", stack: "at x" } as never });
    expect(outcome).toEqual({ state: "scheduled", delayMs: 5, rule: "fixed" });
    expect(await jobRow(client, job.id)).toMatchObject({
      error: { name: "Error", message: "boom", stack: "at x" },
      retry_rule: "fixed",
      retry_delay_ms: "5",
      finished_at: null,
    });
  });

  test("whose attempts are used up has failed for good", async () => {
    let job = await started({ maxAttempts: 2, retryPolicy: { kind: "fixed", delayMs: 0 } });
    expect((await fail(client, job)).state).toBe("ready");
    job = (await claim(client, queue)).jobs[0]!;
    expect(await fail(client, job)).toEqual({ state: "failed", delayMs: null, rule: "attempts used up" });
    expect(await jobRow(client, job.id)).toMatchObject({
      state: "failed",
      finished_at: new Date(Number(clock.nowUs / 1000n)),
      run_at: null,
      retry_rule: "attempts used up",
    });
    expect((await claim(client, queue)).jobs).toEqual([]);
  });

  test("has 25 attempts by default", async () => {
    let job = await started({ retryPolicy: { kind: "fixed", delayMs: 0 } });
    let attempts = 1;
    while ((await fail(client, job)).state !== "failed") {
      job = (await claim(client, queue)).jobs[0]!;
      attempts += 1;
    }
    expect(attempts).toBe(25);
  });

  test("that is given up has failed for good, whatever is left", async () => {
    const job = await started({ retryPolicy: { kind: "fixed", delayMs: 0 } });
    expect(await fail(client, job, { giveUp: true })).toEqual({ state: "failed", delayMs: null, rule: "given up" });
  });

  test("comes back after the delay that was asked for, before its policy; attempts count all the same", async () => {
    let job = await started({ maxAttempts: 2, retryPolicy: { kind: "fixed", delayMs: 5 } });
    expect(await fail(client, job, { delayMs: 77 })).toEqual({ state: "scheduled", delayMs: 77, rule: "asked" });
    await clock.advanceMs(77);
    job = (await claim(client, queue)).jobs[0]!;
    expect(await fail(client, job, { delayMs: 77 })).toMatchObject({ state: "failed", rule: "attempts used up" });
    const at_once = await started();
    expect(await fail(client, at_once, { delayMs: 0 })).toEqual({ state: "ready", delayMs: 0, rule: "asked" });
  });

  test.each([-1, YEAR_MS + 1])("is not moved by an asked delay of %d ms", async (delayMs) => {
    const job = await started();
    const refusal = await refusalOf(fail(client, job, { delayMs }));
    expect(refusal).toMatchObject({
      code: "WH002",
      message: `invalid call of fail_v1: delay is ${delayMs} ms; accepted: 0 to 31,536,000,000 ms (365 days)`,
    });
    expect((await jobRow(client, job.id)).state).toBe("active");
  });
});

describe("an expired lease", () => {
  const expire = async (job: Started) => {
    await clock.set(job.lease_us);
    return rows(client, "SELECT * FROM workhorse.recover_expired_v1() WHERE queue_name = $1", [queue]);
  };

  test("counts as an attempt and, without a policy, the job is ready at once", async () => {
    const job = await started();
    expect(await expire(job)).toEqual([{ job_id: job.id, queue_name: queue, state: "ready" }]);
    expect(await jobRow(client, job.id)).toMatchObject({
      attempt: 1,
      retry_rule: "lease expired",
      retry_delay_ms: "0",
      error: { name: "LeaseExpired", message: expect.stringContaining("worker w let the lease expire") },
    });
    expect((await claim(client, queue)).jobs).toMatchObject([{ id: job.id, attempt: 2, fence_token: "2" }]);
  });

  test("follows the job's retry policy", async () => {
    const policy = { kind: "exponential", initialDelayMs: 100, multiplier: 3, maxDelayMs: 10_000 };
    let job = await started({ retryPolicy: policy });
    await fail(client, job);
    await clock.advanceMs(100);
    job = (await claim(client, queue)).jobs[0]!;
    expect(await expire(job)).toMatchObject([{ state: "scheduled" }]);
    expect(await jobRow(client, job.id)).toMatchObject({ retry_rule: "exponential", retry_delay_ms: "300" });
  });

  test("of the last attempt fails the job", async () => {
    const job = await started({ maxAttempts: 1 });
    expect(await expire(job)).toMatchObject([{ state: "failed" }]);
    expect(await jobRow(client, job.id)).toMatchObject({ state: "failed", retry_rule: "attempts used up" });
  });
});
