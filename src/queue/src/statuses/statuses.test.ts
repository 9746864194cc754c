import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { TestClock } from "../../../../sql/test/support/clock";
import { type TestDatabase, testDatabase } from "../../../../test/support/database";
import { Queue } from "../queue";

const rate = { limit: 60, intervalMs: 60_000, burst: 4 };
const perKey = { limit: 5, intervalMs: 60_000, burst: 2 };

describe("statuses", () => {
  let database: TestDatabase;
  let clock: TestClock;
  let queue: Queue;
  beforeAll(async () => {
    database = await testDatabase();
    clock = await TestClock.install(database.pool);
    queue = new Queue(database.pool);
    await queue.syncRateLimitPolicies("test", [
      { queue: "api", rate, perKey },
      { queue: "idle", rate },
    ]);
    await queue.syncConcurrencyPolicies("test", [{ queue: "render", maxActive: 2, maxActivePerKey: 1 }]);
    await queue.enqueueMany([
      ...Array.from({ length: 5 }, () => ({ type: "a", queue: "api", concurrencyKey: "k" })),
      { type: "a", queue: "plain", delayMs: 60_000 },
      ...Array.from({ length: 4 }, (_, n) => ({ type: "a", queue: "render", concurrencyKey: `k${n % 2}` })),
    ]);
    await queue.claim({ queue: "api", workerId: "w", maxJobs: 10 });
    await queue.claim({ queue: "render", workerId: "w", maxJobs: 10 });
    await clock.advanceMs(500);
  });
  afterAll(() => database.drop());

  test("of rate limits", async () => {
    expect(await queue.rateLimitStatuses(["api"])).toEqual([
      {
        queue: "api",
        namespace: "test",
        rate,
        perKey,
        availableTokens: 2,
        throttledReady: 3,
        throttledKeys: 1,
        nextEligibleAt: new Date(Number(clock.nowUs / 1000n) + 11_500),
        capped: false,
        starts: 2,
        backedOffUntil: null,
      },
    ]);
    expect((await queue.rateLimitStatuses()).map((status) => status.queue)).toEqual(["api", "idle"]);
    expect(await queue.rateLimitStatuses(["plain"])).toEqual([]);
    await queue.backOff("idle", { forMs: 1_000 });
    expect((await queue.rateLimitStatuses(["idle"]))[0]!.backedOffUntil).toEqual(
      new Date(Number(clock.nowUs / 1000n) + 1_000),
    );
  });

  test("of concurrency policies", async () => {
    expect(await queue.concurrencyStatuses()).toEqual([
      {
        queue: "render",
        namespace: "test",
        maxActive: 2,
        maxActivePerKey: 1,
        active: 2,
        blockedReady: 2,
        blockedKeys: 2,
        capped: false,
      },
    ]);
    expect(await queue.concurrencyStatuses(["api"])).toEqual([]);
  });

  test("health has both beside the depth, for every queue with jobs or a policy", async () => {
    const { queues } = await queue.health();
    expect(queues.map((each) => each.queue)).toEqual(["api", "idle", "plain", "render"]);
    expect(queues[0]).toMatchObject({
      ready: 3,
      active: 2,
      scheduled: 0,
      completed: 0,
      oldestReadyAgeMs: 500,
      reason: "key_tokens",
      expiredLeases: 0,
      capped: false,
      rateLimit: { throttledReady: 3 },
      concurrency: null,
    });
    expect(queues[1]).toMatchObject({ ready: 0, oldestReadyAgeMs: null, reason: null, rateLimit: { queue: "idle" } });
    expect(queues[2]).toMatchObject({ scheduled: 1, rateLimit: null, concurrency: null });
    expect(queues[3]).toMatchObject({ active: 2, rateLimit: null, concurrency: { active: 2 } });
  });

  test("refuse queues that are no names", async () => {
    for (const queues of ["api", [""], [null], null]) {
      await expect(queue.rateLimitStatuses(queues as never)).rejects.toMatchObject({ name: "InvalidArgumentError" });
      await expect(queue.concurrencyStatuses(queues as never)).rejects.toMatchObject({ name: "InvalidArgumentError" });
      await expect(queue.listRateLimitPolicies(queues as never)).rejects.toMatchObject({
        name: "InvalidArgumentError",
      });
    }
    await expect(queue.health({ executer: database.pool } as never)).rejects.toMatchObject({
      path: "options.executer",
    });
  });
});
