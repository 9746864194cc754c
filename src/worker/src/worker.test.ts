import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import { type ClaimedJob, InvalidArgumentError, Queue } from "@workhorse/queue";
import { type TestDatabase, testDatabase } from "../../../test/support/database";
import { gate, Recording, RecordingLogger, RecordingPool } from "../test/support";
import { type JobContext, Worker, type WorkerOptions, WorkerProcess, type WorkerProcessOptions } from ".";

const hour = 3_600_000;

let database: TestDatabase;
let queue: Queue;
let pool: RecordingPool;
let logger: RecordingLogger;
let workers: Worker[];
beforeAll(async () => {
  database = await testDatabase();
  queue = new Queue(database.pool);
});
afterAll(() => database.drop());
beforeEach(async () => {
  await database.pool.query("DELETE FROM workhorse.job");
  await queue.syncRateLimitPolicies("test", []);
  await queue.syncConcurrencyPolicies("test", []);
  pool = new RecordingPool(database.pool);
  logger = new RecordingLogger();
  workers = [];
});
afterEach(() => Promise.all(workers.map((worker) => worker.stop())));

/** Nothing happens by polling, unless a test says so. */
function make(options: Partial<WorkerOptions & WorkerProcessOptions> = {}): Worker {
  const quiet = { queues: ["mail"], logger, maintenanceIntervalMs: hour, fallbackPollMs: hour, pollMs: hour };
  const worker = new Worker(pool, { ...quiet, ...options });
  workers.push(worker);
  return worker;
}

async function stored(id: string): Promise<Record<string, unknown>> {
  const { rows } = await database.pool.query("SELECT * FROM workhorse.job WHERE id = $1", [id]);
  return rows[0] as Record<string, unknown>;
}

describe("jobs", () => {
  test("that end together are completed together, each with its own result", async () => {
    const worker = make().handle("a", (job) => ({ of: job.id }));
    const ids = await queue.enqueueMany(Array.from({ length: 10 }, () => ({ type: "a", queue: "mail" })));
    void worker.run();
    await pool.untilCompleted(10);
    expect(pool.sent(/complete_(many_)?v1/)).toHaveLength(1);
    for (const id of ids) expect(await stored(id)).toMatchObject({ state: "completed", result: { of: id } });
  });

  test("that are more than one statement takes end in several", async () => {
    const worker = make({ concurrency: 450 }).handle("a", () => {});
    await queue.enqueueMany(Array.from({ length: 450 }, () => ({ type: "a", queue: "mail" })));
    void worker.run();
    await pool.untilCompleted(450);
    expect(pool.sent(/complete_(many_)?v1/)).toHaveLength(3);
    expect((await worker.stop()).ended).toMatchObject({ completed: 450, leaseLost: 0 });
  });

  test("that end together with one whose result cannot be stored, or whose lease is lost", async () => {
    const released = gate();
    const started = new Recording<ClaimedJob>();
    const worker = make().handle("a", async (job) => {
      started.add(job);
      await released.passed;
      return job.priority === 1 ? { n: 1n } : { text: job.priority === 2 ? "NUL \u0000" : "fine" };
    });
    const ids = await queue.enqueueMany(
      [0, 1, 2, 3, 0].map((priority) => ({ type: "a", queue: "mail", priority, maxAttempts: 1 })),
    );
    void worker.run();
    await started.until((all) => all.length === 5);
    await queue.cancel(ids[3]!);
    released.open();
    expect((await worker.stop()).ended).toMatchObject({ completed: 2, failed: 2, leaseLost: 1 });
    expect(await Promise.all(ids.map(async (id) => (await stored(id)).state))).toEqual([
      "completed",
      "failed",
      "failed",
      "cancelled",
      "completed",
    ]);
  });

  test("are handed to their type's handler, and completed with its result", async () => {
    const worker = new Worker<{ double: { n: number } }>(pool, { queues: ["mail"], logger });
    const seen: { job: ClaimedJob<{ n: number }>; context: JobContext }[] = [];
    worker.handle("double", (job, context) => {
      seen.push({ job, context });
      return { doubled: job.payload.n * 2 };
    });
    workers.push(worker as unknown as Worker);
    const id = await queue.enqueue("double", { n: 21 }, { queue: "mail" });
    const running = worker.run();
    expect(worker.state).toBe("running");
    await pool.untilCompleted();
    expect(await stored(id)).toMatchObject({ state: "completed", result: { doubled: 42 }, worker_id: worker.workerId });
    expect(seen).toMatchObject([{ job: { id, type: "double", attempt: 1 }, context: { workerId: worker.workerId } }]);
    expect(seen[0]!.context.signal.aborted).toBe(false);
    await worker.stop();
    expect((await running).ended).toMatchObject({ completed: 1 });
    expect(seen[0]!.context.signal.aborted).toBe(false);
  });

  test.each([
    ["an error", new Error("no luck"), { name: "Error", message: "no luck" }],
    ["undefined", undefined, { name: "NotAnError", message: "undefined" }],
    ["a string", "no\0luck", { name: "NotAnError", message: "no\uFFFDluck" }],
  ])("that throw %s are tried again", async (_, thrown, kept) => {
    const worker = make().handle("a", () => {
      throw thrown;
    });
    const id = await queue.enqueue("a", null, { queue: "mail", retryPolicy: { kind: "fixed", delayMs: hour } });
    void worker.run();
    await pool.untilSent(/fail_v1/);
    expect(await stored(id)).toMatchObject({ state: "scheduled", attempt: 1, error: kept });
    expect((await worker.stop()).ended).toMatchObject({ retried: 1 });
  });

  test("whose attempts are used up fail for good", async () => {
    const worker = make().handle("a", () => Promise.reject(new Error("never")));
    const id = await queue.enqueue("a", null, {
      queue: "mail",
      maxAttempts: 2,
      retryPolicy: { kind: "fixed", delayMs: 0 },
    });
    void worker.run();
    await logger.untilLine(/failed for good/);
    expect(await stored(id)).toMatchObject({ state: "failed", attempt: 2 });
    expect((await worker.stop()).ended).toMatchObject({ retried: 1, failed: 1 });
  });

  test("whose result cannot be stored fail, and say so", async () => {
    const worker = make().handle("a", () => ({ n: 1n }));
    const id = await queue.enqueue("a", null, { queue: "mail", maxAttempts: 1 });
    void worker.run();
    await logger.untilLine(/failed for good/);
    expect((await stored(id)).error).toMatchObject({
      name: "InvalidJobError",
      message: expect.stringContaining("result.n"),
    });
  });

  test("of unknown types are released to others, which is said once", async () => {
    const worker = make().handle("known", () => {});
    const ids = await queue.enqueueMany([
      { type: "unknown", queue: "mail" },
      { type: "unknown", queue: "mail" },
    ]);
    void worker.run();
    await pool.untilSent(/release_v1/, 2);
    for (const id of ids) expect(await stored(id)).toMatchObject({ state: "scheduled", attempt: 0 });
    expect(logger.lines(/no handler/)).toHaveLength(1);
    expect((await worker.stop()).ended).toMatchObject({ released: 2 });
  });
});

describe("claims", () => {
  test("ask for the free slots only", async () => {
    const gates = [gate(), gate(), gate()];
    const started = new Recording<number>();
    const worker = make({ concurrency: 2 }).handle("a", async (job) => {
      const n = job.payload as number;
      started.add(n);
      await gates[n]!.passed;
    });
    await queue.enqueueMany([0, 1, 2].map((n) => ({ type: "a", queue: "mail", payload: n })));
    void worker.run();
    await started.until((all) => all.length === 2);
    expect(worker.activeJobs).toBe(2);
    const [firstClaim] = pool.sent(/claim_v1/);
    expect(firstClaim!.values![2]).toBe(2);
    expect(pool.sent(/claim_v1/)).toHaveLength(1); // no slot, no claim, whatever is notified
    gates[1]!.open();
    await started.until((all) => all.length === 3);
    expect(pool.sent(/claim_v1/)[1]!.values![2]).toBe(1);
    expect(started.all).toEqual([0, 1, 2]);
    for (const each of gates) each.open();
  });

  test("a throttled worker sends nothing until it is notified, and then starts at once", async () => {
    await queue.syncRateLimitPolicies("test", [{ queue: "mail", rate: { limit: 1, intervalMs: hour, burst: 1 } }]);
    const worker = make().handle("a", () => {});
    await queue.enqueueMany(Array.from({ length: 5 }, () => ({ type: "a", queue: "mail" })));
    void worker.run();
    await pool.untilCompleted();
    await pool.untilRefused("tokens");
    await quiet();
    await queue.syncRateLimitPolicies("test", [{ queue: "mail", rate: { limit: 1_000, intervalMs: 1, burst: 10 } }]);
    await pool.untilCompleted(5);
  });

  test("an idle worker sends nothing until a job is enqueued", async () => {
    const worker = make().handle("a", () => {});
    void worker.run();
    await pool.untilRefused("empty");
    await quiet();
    await queue.enqueue("a", null, { queue: "other" });
    await quiet(100);
    await queue.enqueue("a", null, { queue: "mail" });
    await pool.untilCompleted();
  });

  test("a freed slot of the queue wakes a worker that waits for it", async () => {
    await queue.syncConcurrencyPolicies("test", [{ queue: "mail", maxActive: 1 }]);
    await queue.enqueueMany([
      { type: "a", queue: "mail" },
      { type: "a", queue: "mail" },
    ]);
    const elsewhere = await queue.claim({ queue: "mail", workerId: "elsewhere", leaseMs: hour });
    const worker = make().handle("a", () => {});
    void worker.run();
    await pool.untilRefused("slots");
    await queue.complete(elsewhere.jobs[0]!);
    await pool.untilCompleted();
  });

  test("tokens are taken when they are due, with about one claim for each", async () => {
    await queue.syncRateLimitPolicies("test", [{ queue: "mail", rate: { limit: 1, intervalMs: 100, burst: 1 } }]);
    const worker = make().handle("a", () => {});
    await queue.enqueueMany(Array.from({ length: 8 }, () => ({ type: "a", queue: "mail" })));
    void worker.run();
    await pool.untilCompleted(8);
    // One that starts and one that is refused for each job, and a few for what happens at the start.
    expect(pool.sent(/claim_v1/).length).toBeLessThanOrEqual(2 * 8 + 4);
  });

  test("scheduled jobs start when they are due", async () => {
    const worker = make().handle("a", () => {});
    void worker.run();
    await pool.untilRefused("empty");
    const id = await queue.enqueue("a", null, { queue: "mail", delayMs: 300 });
    await pool.untilCompleted();
    const { rows } = await database.pool.query(
      "SELECT started_at >= run_at AS in_time FROM workhorse.job WHERE id = $1",
      [id],
    );
    expect(rows).toEqual([{ in_time: true }]);
  });

  test("several queues take turns: a deep one starves no other", async () => {
    const order: string[] = [];
    const worker = make({ queues: ["deep", "shallow"], concurrency: 4 }).handle("a", (job) => {
      order.push(job.queue);
    });
    await queue.enqueueMany(Array.from({ length: 60 }, () => ({ type: "a", queue: "deep" })));
    await queue.enqueueMany(Array.from({ length: 6 }, () => ({ type: "a", queue: "shallow" })));
    void worker.run();
    await pool.untilCompleted(66);
    expect(order.slice(0, 4)).toContain("shallow");
    expect(order.lastIndexOf("shallow")).toBeLessThan(30);
  });

  test("two workers never run the same job, and leave none", async () => {
    const runs = new Map<string, number>();
    const count = (job: ClaimedJob): void => void runs.set(job.id, (runs.get(job.id) ?? 0) + 1);
    const ids = await queue.enqueueMany(Array.from({ length: 500 }, () => ({ type: "a", queue: "mail" })));
    const other = new RecordingPool(database.pool);
    const second = new Worker(other, { queues: ["mail"], logger, concurrency: 25 }).handle("a", count);
    workers.push(second);
    const first = make({ concurrency: 25 }).handle("a", count);
    void first.run();
    void second.run();
    await Promise.race([pool, other].map((each) => each.untilRefused("empty")));
    const reports = await Promise.all([first.stop(), second.stop()]);
    expect([...runs.keys()].sort()).toEqual([...ids].sort());
    expect([...runs.values()].every((times) => times === 1)).toBe(true);
    expect(reports.reduce((sum, report) => sum + report.ended.completed, 0)).toBe(500);
  });
});

describe("polling", () => {
  test("with listen: false, jobs are found by polling", async () => {
    const worker = make({ listen: false, pollMs: 20 }).handle("a", () => {});
    void worker.run();
    await pool.untilSent(/claim_v1/);
    await queue.enqueue("a", null, { queue: "mail" });
    await pool.untilCompleted();
    expect(pool.sent(/LISTEN/)).toEqual([]);
    expect(logger.lines(/polled/)).toHaveLength(1);
  });

  test("the fallback poll finds what no notification told", async () => {
    const worker = make({ fallbackPollMs: 50 }).handle("a", () => {});
    void worker.run();
    await pool.untilRefused("empty");
    const claims = pool.sent(/claim_v1/).length;
    await pool.untilSent(/claim_v1/, claims + 2);
  });
});

describe("a shared WorkerProcess", () => {
  test("has one listening connection and one maintenance for all its workers", async () => {
    const shared = new WorkerProcess(pool, { logger, maintenanceIntervalMs: 200 });
    const options = { fallbackPollMs: hour, pollMs: hour };
    const [first, second] = ["one", "two"].map((name) =>
      new Worker(shared, { ...options, queues: [name] }).handle("a", () => {}),
    ) as [Worker, Worker];
    workers.push(first, second);
    void first.run();
    void second.run();
    await pool.untilSent(/^UNLISTEN/);
    for (const name of ["one", "two"]) {
      const before = pool.sent(/complete_v1/).length;
      await queue.enqueue("a", null, { queue: name });
      await pool.untilCompleted(before + 1);
    }
    expect(pool.sent(/^LISTEN workhorse_jobs/)).toHaveLength(1);
    await first.stop();
    expect(shared.listening).toBe(true);
    await queue.enqueue("a", null, { queue: "two" });
    await pool.untilCompleted(3);
    await pool.untilSent(/recover_expired_v1/, 2);
    await second.stop();
    expect(shared.listening).toBe(false);
  });

  test("keeps its options to itself", () => {
    const shared = new WorkerProcess(pool, { logger });
    expect(() => new Worker(shared, { queues: ["a"], listen: false } as never)).toThrow(/options.listen/);
  });
});

describe("stopping", () => {
  test("drains: claims nothing more and waits for the handlers", async () => {
    const held = gate();
    const started = gate();
    const worker = make({ concurrency: 1 }).handle("a", async () => {
      started.open();
      await held.passed;
    });
    const [first, second] = await queue.enqueueMany([
      { type: "a", queue: "mail" },
      { type: "a", queue: "mail" },
    ]);
    const controller = new AbortController();
    const running = worker.run({ signal: controller.signal });
    await started.passed;
    controller.abort();
    expect(worker.state).toBe("draining");
    const stopped = worker.stop();
    expect(worker.stop()).toBe(stopped);
    held.open();
    expect(await running).toEqual({
      stage: "draining",
      durationMs: expect.any(Number),
      ended: { completed: 1, retried: 0, failed: 0, released: 0, leaseLost: 0, abandoned: 0 },
      leftovers: [],
    });
    expect(await stopped).toEqual(await running);
    expect(worker.state).toBe("stopped");
    expect(await stored(first!)).toMatchObject({ state: "completed" });
    expect(await stored(second!)).toMatchObject({ state: "ready" });
  });

  test("aborts after the grace: what the handlers throw then gives the jobs back", async () => {
    const started = gate();
    const worker = make({ graceMs: 50 }).handle("a", (_, { signal }) => {
      started.open();
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    const id = await queue.enqueue("a", null, { queue: "mail" });
    void worker.run();
    await started.passed;
    expect(await worker.stop()).toMatchObject({ stage: "aborting", ended: { released: 1 }, leftovers: [] });
    expect(await stored(id)).toMatchObject({ state: "ready", attempt: 0 });
  });

  test("reports what was left, and no longer holds it", async () => {
    const held = gate();
    const started = gate();
    const worker = make({ graceMs: 0, abortGraceMs: 20, leaseMs: 300, listen: false }).handle("a", async () => {
      started.open();
      await held.passed; // heeds nothing
    });
    const id = await queue.enqueue("a", null, { queue: "mail" });
    void worker.run();
    await started.passed;
    const { leftovers } = await worker.stop();
    expect(leftovers).toEqual([{ id, type: "a", queue: "mail", attempt: 1, phase: "handler" }]);
    expect(logger.lines(/left behind/)).toHaveLength(1);
    const heartbeats = pool.sent(/heartbeat_v1/).length;
    await quiet(300);
    expect(pool.sent(/heartbeat_v1/)).toHaveLength(heartbeats);
    expect(await queue.recoverExpired()).toMatchObject([{ id }]);
    held.open();
    await logger.untilLine(/late result/);
  });

  test("before the run, and with a signal that is aborted already", async () => {
    const idle = make().handle("a", () => {});
    expect(await idle.stop()).toMatchObject({ leftovers: [] });
    await expect(idle.run()).rejects.toThrow(/the worker is stopped/);
    const aborted = make().handle("a", () => {});
    expect(await aborted.run({ signal: AbortSignal.abort() })).toMatchObject({ stage: "draining", leftovers: [] });
  });

  test("leaves no connection that listens", async () => {
    const worker = make().handle("a", () => {});
    void worker.run();
    await pool.untilRefused("empty");
    await worker.stop();
    expect(pool.listening).toEqual([]);
  });
});

describe("what is refused", () => {
  test.each<[unknown, string]>([
    [undefined, "options"],
    [{}, "options.queues"],
    [{ queues: [] }, "options.queues"],
    [{ queues: ["a", "a"] }, "options.queues[1]"],
    [{ queues: [""] }, "options.queues[0]"],
    [{ queues: ["a"], concurrency: 0 }, "options.concurrency"],
    [{ queues: ["a"], concurency: 5 }, "options.concurency"],
    [{ queues: ["a"], leaseMs: 10 }, "options.leaseMs"],
    [{ queues: ["a"], pollMs: "1s" }, "options.pollMs"],
    [{ queues: ["a"], graceMs: -1 }, "options.graceMs"],
    [{ queues: ["a"], workerId: "" }, "options.workerId"],
    [{ queues: ["a"], logger: {} }, "options.logger.debug"],
    [{ queues: ["a"], listen: 1 }, "options.listen"],
  ])("the options %j", (options, path) => {
    const error = (() => {
      try {
        return new Worker(pool, options as never);
      } catch (thrown) {
        return thrown;
      }
    })();
    expect(error).toBeInstanceOf(InvalidArgumentError);
    expect(error).toMatchObject({ path });
  });

  test("what is no pool", async () => {
    const client = await database.connect();
    for (const given of [undefined, "postgres://", {}, client]) {
      expect(() => new Worker(given as never, { queues: ["a"] })).toThrow(/accepted: a Pool of pg/);
    }
    await client.end();
  });

  test("two handlers of a type, no handler, running twice", async () => {
    const worker = make().handle("a", () => {});
    expect(() => worker.handle("a", () => {})).toThrow(/already has a handler/);
    expect(() => worker.handle("b", "c" as never)).toThrow(/handler is "c"/);
    await expect(make().run()).rejects.toThrow(/no handler/);
    void worker.run();
    await expect(worker.run()).rejects.toThrow(/the worker is running/);
  });
});

/** Fails if anything is sent within this time. The only kind of waiting here: for what must not happen. */
async function quiet(ms = 1_000): Promise<void> {
  const before = pool.all.length;
  await new Promise((resolve) => setTimeout(resolve, ms));
  expect(pool.all.slice(before).map((sent) => sent.text)).toEqual([]);
}
