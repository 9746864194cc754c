import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import { TestClock } from "../../../../sql/test/support/clock";
import { type TestDatabase, testDatabase } from "../../../../test/support/database";
import { InvalidArgumentError, InvalidJobError, IsolationLevelError, LeaseLostError } from "../errors";
import { Queue } from "../queue";
import type { ClaimedJob } from "./types";

let database: TestDatabase;
let clock: TestClock;
let queue: Queue;
beforeAll(async () => {
  database = await testDatabase();
  clock = await TestClock.install(database.pool);
  queue = new Queue(database.pool);
});
afterAll(() => database.drop());
beforeEach(async () => {
  await database.pool.query("DELETE FROM workhorse.job");
  await queue.syncRateLimitPolicies("test", []);
  await queue.syncConcurrencyPolicies("test", []);
});

const claimAll = (name = "default") => queue.claim({ queue: name, workerId: "w", maxJobs: 100, leaseMs: 10_000 });

async function claimOne(name = "default"): Promise<ClaimedJob> {
  const { jobs } = await queue.claim({ queue: name, workerId: "w", leaseMs: 10_000 });
  expect(jobs).toHaveLength(1);
  return jobs[0]!;
}

async function stored(id: string): Promise<Record<string, unknown>> {
  const { rows } = await database.pool.query("SELECT * FROM workhorse.job WHERE id = $1", [id]);
  return rows[0] as Record<string, unknown>;
}

describe("enqueue", () => {
  test("hands every field through to the claim", async () => {
    const payload = { text: "ü 'quoted' \\u0041", list: [1, null, true], nested: { a: 1.5 } };
    const id = await queue.enqueue("invoice.send", payload, {
      queue: "mail",
      concurrencyKey: "customer-1",
      priority: -7,
      maxAttempts: 3,
      retryPolicy: { kind: "exponential", initialDelayMs: 1_000, multiplier: 1.5, maxDelayMs: 60_000 },
    });
    expect((await claimAll("mail")).jobs).toEqual([
      {
        id,
        fenceToken: "1",
        queue: "mail",
        type: "invoice.send",
        payload,
        concurrencyKey: "customer-1",
        priority: -7,
        attempt: 1,
        maxAttempts: 3,
        createdAt: expect.any(Date),
        startedAt: expect.any(Date),
        leaseExpiresAt: expect.any(Date),
      },
    ]);
    expect((await stored(id)).retry_policy).toMatchObject({ multiplier: 1.5 });
  });

  test("has defaults", async () => {
    await queue.enqueue("a");
    const job = await claimOne();
    expect(job).toMatchObject({ queue: "default", payload: null, concurrencyKey: null, priority: 0, maxAttempts: 25 });
    await queue.enqueue("a", undefined, { queue: undefined, concurrencyKey: null, runAt: undefined });
    expect(await claimOne()).toMatchObject({ queue: "default", payload: null, concurrencyKey: null });
  });

  test("runAt and delayMs schedule", async () => {
    const now = Number(clock.nowUs / 1000n);
    await queue.enqueueMany([
      { type: "later", runAt: new Date(now + 2_000) },
      { type: "sooner", delayMs: 1_000 },
      { type: "past", runAt: new Date(0) },
    ]);
    const first = await claimAll();
    expect(first).toMatchObject({ reason: "empty", waitMs: 1_000, nextEligibleAt: new Date(now + 1_000) });
    expect(first.jobs.map((job) => job.type)).toEqual(["past"]);
    await clock.advanceMs(1_000);
    expect((await claimAll()).jobs.map((job) => job.type)).toEqual(["sooner"]);
    await clock.advanceMs(1_000);
    expect((await claimAll()).jobs.map((job) => job.type)).toEqual(["later"]);
  });

  test("many come back as ids in order, in one statement", async () => {
    const texts: string[] = [];
    const counting = new Queue({
      query(text, values) {
        texts.push(text);
        return database.pool.query(text, values);
      },
    });
    const jobs = Array.from({ length: 10_000 }, (_, n) => ({ type: "a", payload: n, priority: n % 3 }));
    const ids = await counting.enqueueMany(jobs);
    expect(texts.filter((text) => text.includes("enqueue_v1"))).toHaveLength(1);
    const { rows } = await database.pool.query("SELECT id, payload FROM workhorse.job ORDER BY id");
    expect(rows).toEqual(ids.map((id, n) => ({ id, payload: n })));
    expect(await counting.enqueueMany([])).toEqual([]);
    await expect(counting.enqueueMany([...jobs, { type: "a" }])).rejects.toMatchObject({
      path: "jobs",
      got: "an array of 10,001",
    });
  });

  test.each(["COMMIT", "ROLLBACK"])("inside the caller's transaction, %s decides", async (end) => {
    const executor = await database.connect();
    await executor.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    const id = await queue.enqueue("a", null, { executor });
    await queue.enqueueMany([{ type: "b" }], { executor });
    expect(await stored(id)).toBeUndefined();
    await executor.query(end);
    await executor.end();
    const { rows } = await database.pool.query("SELECT type FROM workhorse.job ORDER BY id");
    expect(rows.map((row: { type: string }) => row.type)).toEqual(end === "COMMIT" ? ["a", "b"] : []);
  });

  test("one bad job among many: none is enqueued", async () => {
    const call = queue.enqueueMany([{ type: "a" }, { type: "b", priority: 40_000 }, { type: "c" }]);
    await expect(call).rejects.toThrow(InvalidJobError);
    await expect(call).rejects.toMatchObject({ path: "jobs[1].priority", got: "40000", index: 1 });
    expect((await claimAll()).jobs).toEqual([]);
  });
});

describe("what enqueue refuses before anything is sent", () => {
  const offline = new Queue({ query: () => Promise.reject(new Error("was sent")) });

  async function refused(call: Promise<unknown>): Promise<InvalidJobError> {
    const error = await call.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InvalidJobError);
    return error as InvalidJobError;
  }

  test.each<[string, unknown, string]>([
    ["concurrencyKey", "", "empty"],
    ["concurrencyKey", "k".repeat(257), "too long"],
    ["concurrencyKey", 7, "7"],
    ["queue", "", "empty"],
    ["queue", null, "null"],
    ["priority", 0.5, "0.5"],
    ["priority", 32_768, "32768"],
    ["priority", "1", '"1"'],
    ["maxAttempts", 0, "0"],
    ["maxAttempts", null, "null"],
    ["delayMs", -1, "-1"],
    ["delayMs", 31_536_000_001, "31536000001"],
    ["runAt", new Date(Number.NaN), "an invalid Date"],
    ["runAt", new Date(8.64e15), "outside of the years"],
    ["runAt", "2030-01-01T00:00:00Z", '"2030'],
    ["retryPolicy", null, "null"],
    ["retryPolicy", "fixed", '"fixed"'],
  ])("%s: %p", async (name, value, got) => {
    const options = { [name]: value } as never;
    expect(await refused(offline.enqueue("a", null, options))).toMatchObject({
      path: `options.${name}`,
      got: expect.stringContaining(got),
    });
    expect(await refused(offline.enqueueMany([{ type: "a", ...(options as object) }]))).toMatchObject({
      path: `jobs[0].${name}`,
      index: 0,
    });
  });

  test.each<[unknown, string]>([
    [{ kind: "linear" }, "options.retryPolicy.kind"],
    [{ kind: "toString" }, "options.retryPolicy.kind"],
    [{ kind: "fixed" }, "options.retryPolicy.delayMs"],
    [{ kind: "fixed", delayMs: 1, maxDelayMs: 2 }, "options.retryPolicy.maxDelayMs"],
    [{ kind: "exponential", initialDelayMs: 1, multiplier: 0.9, maxDelayMs: 2 }, "options.retryPolicy.multiplier"],
    [{ kind: "decorrelated-jitter", baseDelayMs: 1.5, maxDelayMs: 2 }, "options.retryPolicy.baseDelayMs"],
  ])("the retry policy %j", async (retryPolicy, path) => {
    expect(await refused(offline.enqueue("a", null, { retryPolicy } as never))).toMatchObject({ path });
  });

  test("payloads that jsonb cannot hold, without showing them", async () => {
    const error = await refused(offline.enqueue("a", { secret: "hunter2\0" }));
    expect(error).toMatchObject({ path: "payload.secret" });
    expect(error.message).not.toContain("hunter2");
    expect(await refused(offline.enqueueMany([{ type: "a" }, { type: "a", payload: [1n] }]))).toMatchObject({
      path: "jobs[1].payload[0]",
      index: 1,
    });
  });

  test("a time and a delay at once, unknown options, no type, no list", async () => {
    expect(await refused(offline.enqueue("a", null, { runAt: new Date(), delayMs: 1 }))).toMatchObject({
      path: "options.delayMs",
    });
    const misspelt = await refused(offline.enqueue("a", null, { concurrency_key: "k" } as never));
    expect(misspelt).toMatchObject({
      path: "options.concurrency_key",
      accepted: expect.stringContaining("concurrencyKey (did"),
    });
    expect(await refused(offline.enqueue(undefined as never))).toMatchObject({ path: "type", got: "nothing" });
    expect(await refused(offline.enqueueMany([null] as never))).toMatchObject({ path: "jobs[0]" });
    expect(await refused(offline.enqueueMany("a" as never))).toMatchObject({ path: "jobs" });
    expect(await refused(offline.enqueue("a", null, null as never))).toMatchObject({ path: "options" });
    expect(await refused(offline.enqueue("a", null, { executor: {} } as never))).toMatchObject({
      path: "options.executor",
    });
  });

  test("a NUL that only the server sees is an invalid job too", async () => {
    const sneaking = new Queue({
      query: (text, values) =>
        database.pool.query(
          text,
          values?.map((value) => String(value).replace("NUL", "\\u0000")),
        ),
    });
    await expect(sneaking.enqueue("a", "NUL")).rejects.toMatchObject({
      name: "InvalidJobError",
      cause: { code: "22P05" },
    });
  });
});

describe("claim", () => {
  test("says when to ask again", async () => {
    await queue.syncRateLimitPolicies("test", [{ queue: "api", rate: { limit: 1, intervalMs: 5_000, burst: 2 } }]);
    await queue.enqueueMany(Array.from({ length: 3 }, () => ({ type: "a", queue: "api" })));
    const both = await queue.claim({ queue: "api", workerId: "w", maxJobs: 2 });
    expect(both).toMatchObject({ nextEligibleAt: null, waitMs: null, reason: null });
    expect(both.jobs).toHaveLength(2);
    const none = await queue.claim({ queue: "api", workerId: "w", maxJobs: 2 });
    const at = new Date(Number(clock.nowUs / 1000n) + 5_000);
    expect(none).toEqual({ jobs: [], waitMs: 5_000, nextEligibleAt: at, reason: "tokens" });
  });

  test("an empty queue: only an event helps", async () => {
    expect(await claimAll("nothing")).toEqual({ jobs: [], waitMs: null, nextEligibleAt: null, reason: "empty" });
  });

  test("priority first, then age", async () => {
    await queue.enqueueMany([{ type: "a" }, { type: "b", priority: 1 }, { type: "c" }, { type: "d", priority: 1 }]);
    expect((await claimAll()).jobs.map((job) => job.type)).toEqual(["b", "d", "a", "c"]);
  });

  test("refuses other isolation levels", async () => {
    const executor = await database.connect();
    await executor.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await expect(queue.claim({ workerId: "w", executor })).rejects.toThrow(IsolationLevelError);
    await executor.query("ROLLBACK");
    await executor.end();
  });

  test("does not depend on the application's type parsers", async () => {
    await queue.enqueue("a", { n: [1, "x"] });
    const asText = new Queue({
      query: (text, values) =>
        database.pool.query({ text, values, types: { getTypeParser: () => (value: string) => value } } as never),
    });
    const { jobs } = await asText.claim({ workerId: "w", maxJobs: 2 });
    expect(jobs).toMatchObject([
      { payload: { n: [1, "x"] }, attempt: 1, startedAt: new Date(Number(clock.nowUs / 1000n)) },
    ]);
  });

  test.each<[object, string]>([
    [{}, "options.workerId"],
    [{ workerId: "w", maxJobs: 0 }, "options.maxJobs"],
    [{ workerId: "w", maxJobs: 1_001 }, "options.maxJobs"],
    [{ workerId: "w", leaseMs: 99 }, "options.leaseMs"],
    [{ workerId: "w", leaseMs: "1s" }, "options.leaseMs"],
    [{ workerId: "w", lease: 100 }, "options.lease"],
  ])("refuses %j", async (options, path) => {
    const call = queue.claim(options as never);
    await expect(call).rejects.toThrow(InvalidArgumentError);
    await expect(call).rejects.toMatchObject({ path, code: "WH002" });
  });
});

describe("the end of a start", () => {
  test("complete keeps the result", async () => {
    const id = await queue.enqueue("a");
    await queue.complete(await claimOne(), { sent: true });
    expect(await stored(id)).toMatchObject({ state: "completed", result: { sent: true } });
    await queue.enqueue("b");
    const job = await claimOne();
    await expect(queue.complete(job, () => 1)).rejects.toMatchObject({ name: "InvalidJobError", path: "result" });
    await queue.complete(job);
    expect(await stored(job.id)).toMatchObject({ state: "completed", result: null });
  });

  test("fail tries again as the policy says, until attempts are used up", async () => {
    const id = await queue.enqueue("a", null, { maxAttempts: 3, retryPolicy: { kind: "fixed", delayMs: 1_000 } });
    const error = new Error("no luck", { cause: new TypeError("deeper") });
    expect(await queue.fail(await claimOne(), error)).toEqual({ state: "scheduled", delayMs: 1_000, rule: "fixed" });
    expect((await stored(id)).error).toMatchObject({ name: "Error", message: "no luck", cause: { name: "TypeError" } });
    await clock.advanceMs(1_000);
    expect(await queue.fail(await claimOne(), undefined, { retryDelayMs: 0 })).toMatchObject({
      state: "ready",
      delayMs: 0,
    });
    const last = await claimOne();
    expect(last).toMatchObject({ attempt: 3, fenceToken: "3" });
    expect(await queue.fail(last, "x")).toMatchObject({ state: "failed", delayMs: null, rule: "attempts used up" });
  });

  test("fail with giveUp ends the job", async () => {
    await queue.enqueue("a");
    expect(await queue.fail(await claimOne(), "x", { giveUp: true })).toMatchObject({
      state: "failed",
      rule: "given up",
    });
  });

  test("release counts no attempt", async () => {
    await queue.enqueue("a");
    await queue.release(await claimOne());
    expect(await claimAll()).toMatchObject({ jobs: [], waitMs: 30_000 });
    await clock.advanceMs(30_000);
    await queue.release(await claimOne(), { delayMs: 0 });
    expect(await claimOne()).toMatchObject({ attempt: 1, fenceToken: "3" });
  });

  test("many are completed at once, but for those whose lease is lost", async () => {
    const ids = await queue.enqueueMany([{ type: "a" }, { type: "b" }, { type: "c" }]);
    const { jobs } = await claimAll();
    await queue.cancel(ids[1]!);
    const completions = jobs.map((job, n) => ({ job, result: n === 0 ? undefined : { n } }));
    expect(await queue.completeMany(completions)).toEqual([ids[1]]);
    expect(await queue.completeMany(completions)).toEqual(ids);
    expect(await queue.completeMany([])).toEqual([]);
    const { rows } = await database.pool.query("SELECT state, result FROM workhorse.job ORDER BY id");
    expect(rows).toEqual([
      { state: "completed", result: null },
      { state: "cancelled", result: null },
      { state: "completed", result: { n: 2 } },
    ]);
  });

  test("a result that cannot be stored completes none of them", async () => {
    await queue.enqueueMany([{ type: "a" }, { type: "b" }]);
    const { jobs } = await claimAll();
    const bad = queue.completeMany([{ job: jobs[0]! }, { job: jobs[1]!, result: 1n }]);
    await expect(bad).rejects.toThrow(InvalidJobError);
    expect(await queue.completeMany(jobs.map((job) => ({ job })))).toEqual([]);
  });

  test("heartbeats extend, and tell what is lost", async () => {
    await queue.enqueueMany([{ type: "a" }, { type: "b" }]);
    const { jobs } = await claimAll();
    await clock.advanceMs(9_000);
    await queue.cancel(jobs[0]!.id);
    expect(await queue.heartbeat(jobs, 10_000)).toEqual([jobs[0]!.id]);
    await clock.advanceMs(9_000);
    await queue.complete(jobs[1]!);
    expect(await queue.heartbeat([], 10_000)).toEqual([]);
  });

  test("after the lease: everything is refused, recovered or not", async () => {
    await queue.enqueue("a");
    const job = await claimOne();
    await clock.advanceMs(10_000);
    const late = async () => {
      expect(await queue.heartbeat([job], 10_000)).toEqual([job.id]);
      for (const call of [queue.complete(job), queue.fail(job, "x"), queue.release(job)]) {
        await expect(call).rejects.toThrow(LeaseLostError);
        await expect(call).rejects.toMatchObject({ jobId: job.id, code: "WH004" });
      }
    };
    await late();
    expect(await queue.recoverExpired()).toEqual([{ id: job.id, queue: "default", state: "ready" }]);
    await late();
    const again = await claimOne();
    await late();
    await queue.complete(again);
    expect(await queue.recoverExpired(1)).toEqual([]);
  });

  test("joins the caller's transaction", async () => {
    await queue.enqueue("a");
    const job = await claimOne();
    const executor = await database.connect();
    await executor.query("BEGIN");
    await queue.complete(job, null, { executor });
    await executor.query("ROLLBACK");
    await executor.end();
    await queue.complete(job);
  });

  test("refuses what is no claimed job", async () => {
    for (const job of [
      undefined,
      null,
      {},
      { id: 1, fenceToken: "1" },
      { id: "1", fenceToken: "-1" },
      { id: "9".repeat(19), fenceToken: "1" },
    ]) {
      await expect(queue.complete(job as never)).rejects.toThrow(InvalidArgumentError);
      await expect(queue.heartbeat([job] as never, 1_000)).rejects.toThrow(InvalidArgumentError);
    }
    await expect(queue.heartbeat("x" as never, 1_000)).rejects.toThrow(InvalidArgumentError);
    await expect(queue.completeMany("x" as never)).rejects.toMatchObject({ path: "completions" });
    await expect(queue.completeMany([{ jobs: 1 }] as never)).rejects.toMatchObject({ path: "completions[0].jobs" });
    await expect(queue.completeMany([{ job: {} }] as never)).rejects.toMatchObject({ path: "completions[0].job.id" });
    const job = { id: "1", fenceToken: "1" };
    await expect(queue.fail(job, "x", { retryDelay: 5 } as never)).rejects.toMatchObject({
      path: "options.retryDelay",
    });
    await expect(queue.fail(job, "x", { retryDelayMs: -1 })).rejects.toMatchObject({ path: "options.retryDelayMs" });
    await expect(queue.release(job, { delayMs: null as never })).rejects.toMatchObject({ path: "options.delayMs" });
  });
});

describe("control", () => {
  test("cancel says where the job was", async () => {
    const [ready, scheduled] = await queue.enqueueMany([{ type: "a" }, { type: "b", delayMs: 5_000 }]);
    const job = await claimOne();
    expect(await queue.cancel(job.id)).toBe("active");
    await expect(queue.complete(job)).rejects.toThrow(LeaseLostError);
    expect(await queue.cancel(ready!)).toBeNull();
    expect(await queue.cancel(scheduled!)).toBe("scheduled");
    expect(await queue.cancel("999999999")).toBeNull();
    await expect(queue.cancel("abc")).rejects.toMatchObject({ path: "jobId" });
  });

  test("backOff closes a key or the queue, and can be lifted", async () => {
    await queue.enqueueMany([{ type: "a", concurrencyKey: "k" }, { type: "b" }]);
    const until = new Date(Number(clock.nowUs / 1000n) + 60_000);
    expect(await queue.backOff("default", { key: "k", forMs: 60_000, reason: "429" })).toEqual(until);
    expect((await claimAll()).jobs.map((job) => job.type)).toEqual(["b"]);
    expect(await claimAll()).toMatchObject({ reason: "backed_off", waitMs: 60_000 });
    await queue.backOff("default", { forMs: 1 });
    expect(await queue.backOff("default", { forMs: 0 })).toBeNull();
    expect(await queue.backOff("default", { key: "k", forMs: 0 })).toBeNull();
    expect((await claimAll()).jobs.map((job) => job.type)).toEqual(["a"]);
    await expect(queue.backOff("default", {} as never)).rejects.toMatchObject({ path: "options.forMs" });
    await expect(queue.backOff("default", { forMs: 1, key: "" })).rejects.toMatchObject({ path: "options.key" });
    await expect(queue.backOff("default", { forMs: 1, reason: "x".repeat(1_001) })).rejects.toMatchObject({
      path: "options.reason",
    });
  });

  test("promote and sweep say how many", async () => {
    await queue.enqueueMany([
      { type: "a", delayMs: 1 },
      { type: "b", delayMs: 1 },
    ]);
    await clock.advanceMs(1);
    expect(await queue.promote(1)).toBe(1);
    expect(await queue.promote()).toBe(1);
    for (const job of (await claimAll()).jobs) await queue.complete(job);
    await clock.advanceMs(3_600_000); // what earlier tests' policies left behind is due too
    while ((await queue.sweep()) > 0);
    expect(await queue.sweep(1_000, { keepMs: 3_600_000 })).toBe(2);
    await expect(queue.sweep(1, { keep: 1 } as never)).rejects.toMatchObject({ path: "options.keep" });
    await expect(queue.promote(0)).rejects.toMatchObject({ path: "limit" });
    await expect(queue.recoverExpired(10_001)).rejects.toMatchObject({ path: "limit" });
  });

  test("explain says what a job waits for", async () => {
    await queue.syncRateLimitPolicies("test", [{ queue: "api", rate: { limit: 1, intervalMs: 5_000, burst: 1 } }]);
    const [first, second] = await queue.enqueueMany([
      { type: "a", queue: "api" },
      { type: "a", queue: "api" },
    ]);
    await claimOne("api");
    expect(await queue.explain(first!)).toMatchObject({
      state: "active",
      reason: "active",
      attempt: 1,
      leaseExpiresAt: expect.any(Date),
    });
    expect(await queue.explain(second!)).toEqual({
      id: second,
      queue: "api",
      concurrencyKey: null,
      state: "ready",
      attempt: 0,
      maxAttempts: 25,
      reason: "tokens",
      message: expect.stringContaining("token"),
      ahead: 0,
      aheadCapped: false,
      earliestAt: new Date(Number(clock.nowUs / 1000n) + 5_000),
      leaseExpiresAt: null,
    });
    expect(await queue.explain("999999999")).toBeNull();
  });
});

test("a role without rights gets an error that says which role it needs", async () => {
  await database.pool.query("SELECT workhorse.create_roles_v1($1)", [database.rolePrefix]);
  await database.pool.query(
    `CREATE ROLE "${database.rolePrefix}_login" LOGIN PASSWORD 'p' IN ROLE "${database.rolePrefix}_worker"`,
  );
  const executor = await database.connect(database.urlFor(`${database.rolePrefix}_login`, "p"));
  const limited = new Queue(executor);
  await expect(limited.enqueue("a")).resolves.toMatch(/^\d+$/);
  await expect(limited.syncRateLimitPolicies("n", [])).rejects.toMatchObject({
    name: "PermissionError",
    code: "42501",
    message: expect.stringContaining("_policies"),
  });
  await executor.end();
});

test.each([undefined, null, "postgres://", {}, { query: 1 }])("new Queue(%p) is refused", (executor) => {
  expect(() => new Queue(executor as never)).toThrow(InvalidArgumentError);
});
