import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import { LeaseLostError, Queue } from "@workhorse/queue";
import { type TestDatabase, testDatabase } from "../../../test/support/database";
import { gate, Recording, RecordingLogger, RecordingPool } from "../test/support";
import { Worker, type WorkerOptions, type WorkerProcessOptions } from ".";

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
  pool = new RecordingPool(database.pool);
  logger = new RecordingLogger();
  workers = [];
});
afterEach(() => {
  pool.failing = undefined;
  return Promise.all(workers.map((worker) => worker.stop()));
});

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

describe("leases", () => {
  test("heartbeats keep a job for longer than its lease", async () => {
    const held = gate();
    const worker = make({ leaseMs: 1_500 }).handle("a", () => held.passed);
    const id = await queue.enqueue("a", null, { queue: "mail" });
    void worker.run();
    await pool.untilSent(/heartbeat_v1/, 4); // one lease is three of them
    expect(await queue.recoverExpired()).toEqual([]);
    held.open();
    await pool.untilCompleted();
    expect(await stored(id)).toMatchObject({ state: "completed", attempt: 1, fence_token: "1" });
  });

  test("many jobs share one heartbeat", async () => {
    const held = gate();
    const worker = make({ leaseMs: 1_500 }).handle("a", () => held.passed);
    await queue.enqueueMany(Array.from({ length: 7 }, () => ({ type: "a", queue: "mail" })));
    void worker.run();
    await pool.untilSent(/heartbeat_v1/);
    expect(pool.sent(/heartbeat_v1/)[0]!.values![0]).toHaveLength(7);
    held.open();
    await pool.untilCompleted(7);
  });

  test("no job, no heartbeat", async () => {
    const worker = make({ leaseMs: 3_000 }).handle("a", () => {});
    await queue.enqueue("a", null, { queue: "mail" });
    void worker.run();
    await pool.untilCompleted();
    const completed = pool.all.findIndex(({ text }) => text.includes("complete_v1"));
    await new Promise((resolve) => setTimeout(resolve, 1_200)); // for what must not happen: a beat is due each second
    expect(pool.sent(/heartbeat_v1/).filter(({ place }) => place > completed)).toEqual([]);
  });

  test("a lost lease aborts the handler, and its late result is dropped", async () => {
    const reasons = new Recording<unknown>();
    const started = gate();
    const worker = make({ leaseMs: 300 }).handle("a", async (_, { signal }) => {
      started.open();
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      reasons.add(signal.reason);
      return "late";
    });
    const id = await queue.enqueue("a", null, { queue: "mail" });
    void worker.run();
    await started.passed;
    await queue.cancel(id);
    await logger.untilLine(/late result is dropped/);
    expect(reasons.all).toEqual([expect.any(LeaseLostError)]);
    expect(await stored(id)).toMatchObject({ state: "cancelled", result: null });
    expect(pool.sent(/complete_v1/)).toEqual([]);
    expect((await worker.stop()).ended).toMatchObject({ leaseLost: 1 });
  });

  test("a result that comes after an unnoticed loss is refused by PostgreSQL, quietly", async () => {
    const held = gate();
    const started = gate();
    const worker = make().handle("a", () => {
      started.open();
      return held.passed;
    });
    const id = await queue.enqueue("a", null, { queue: "mail" });
    void worker.run();
    await started.passed;
    await queue.cancel(id);
    held.open();
    await logger.untilLine(/late result is dropped/);
    expect(logger.lines(/fail/)).toEqual([]);
    expect(await stored(id)).toMatchObject({ state: "cancelled" });
  });

  test("when no heartbeat gets through, the handler is told before anybody else can have the job", async () => {
    const started = gate();
    const aborted = new Recording<number>();
    let startedAt = 0;
    const worker = make({ leaseMs: 2_000 }).handle("a", async (job, { signal }) => {
      startedAt = job.leaseExpiresAt.getTime();
      started.open();
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      aborted.add(Date.now()); // the database runs on this machine: its clock is ours
      signal.throwIfAborted();
    });
    pool.failing = /heartbeat_v1/;
    await queue.enqueue("a", null, { queue: "mail" });
    void worker.run();
    await started.passed;
    await aborted.until((all) => all.length === 1);
    expect(aborted.all[0]).toBeLessThan(startedAt + 1_000); // a busy machine may be late, but it is told by its own clock
    expect(logger.lines(/heartbeats fail/)).toHaveLength(1);
    expect(logger.lines(/lease is lost/)).toHaveLength(1);
  });

  test("expired leases of others are recovered and run", async () => {
    await queue.enqueue("a", null, { queue: "mail" });
    await queue.claim({ queue: "mail", workerId: "dead", leaseMs: 100 });
    const worker = make({ maintenanceIntervalMs: 100 }).handle("a", () => {});
    void worker.run();
    await pool.untilCompleted();
    expect(logger.lines(/brought back/).length).toBeGreaterThanOrEqual(1);
  });
});

describe("the database", () => {
  test("down while jobs finish: nothing is lost, and each trouble is said once", async () => {
    const held = gate();
    const started = gate();
    const worker = make({ concurrency: 2 }).handle("a", async () => {
      started.open();
      await held.passed;
    });
    const id = await queue.enqueue("a", null, { queue: "mail" });
    void worker.run();
    await started.passed;
    await pool.untilSent(/^UNLISTEN/);
    pool.failing = /./;
    held.open();
    await logger.untilLine(/completions fail/);
    await queue.enqueue("a", null, { queue: "mail" });
    await logger.untilLine(/claims fail/);
    pool.failing = undefined;
    await pool.untilCompleted(2);
    expect(await stored(id)).toMatchObject({ state: "completed", attempt: 1 });
    for (const what of [/completions fail/, /completions work again/, /claims fail/, /claims work again/]) {
      expect(logger.lines(what)).toHaveLength(1);
    }
  });

  test("a claim that fails is tried again, without a notification", async () => {
    const worker = make().handle("a", () => {});
    pool.failing = /claim_v1/;
    void worker.run();
    await logger.untilLine(/claims fail/);
    await queue.enqueue("a", null, { queue: "mail" });
    pool.failing = undefined;
    await pool.untilCompleted();
  });

  test("a broken LISTEN connection heals, and what was missed meanwhile is found", async () => {
    const worker = make().handle("a", () => {});
    void worker.run();
    await pool.untilRefused("empty");
    pool.failing = /connect/;
    const { rows } = await database.pool.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND query LIKE 'UNLISTEN%'`,
    );
    expect(rows).toHaveLength(1);
    await logger.untilLine(/notifications .* fail/);
    pool.failing = undefined;
    await queue.enqueue("a", null, { queue: "mail" });
    await pool.untilCompleted();
    await logger.untilLine(/notifications .* work again/);
    await pool.untilRefused("empty");
    await queue.enqueue("a", null, { queue: "mail" });
    await pool.untilCompleted(2);
  });

  test("all its connections killed at once: the worker goes on", async () => {
    const worker = make({ pollMs: 200 }).handle("a", () => {});
    void worker.run();
    await pool.untilRefused("empty");
    await database.pool.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    await queue.enqueue("a", null, { queue: "mail" });
    await pool.untilCompleted();
  });

  test("without the schema: said once, with what to do; the worker waits for it", async () => {
    const empty = await testDatabase({ schema: false });
    try {
      const worker = new Worker(empty.pool, { queues: ["mail"], logger }).handle("a", () => {});
      void worker.run();
      await logger.untilLine(/claims fail/);
      const { error } = logger.lines(/claims fail/)[0]!.fields;
      expect(error).toMatchObject({ name: "SchemaError", message: expect.stringContaining("installSchema") });
      await worker.stop();
    } finally {
      await empty.drop();
    }
  });
});

test("a pool of one connection is polled", async () => {
  Object.assign(pool, { options: { max: 1 } });
  const worker = make({ pollMs: 20 }).handle("a", () => {});
  void worker.run();
  await queue.enqueue("a", null, { queue: "mail" });
  await pool.untilCompleted();
  expect(logger.lines(/polled/)).toMatchObject([{ fields: { why: "the pool has one connection only" } }]);
});

test("a claim that hangs does not hold up the stop, and what it started is given back", async () => {
  const hanging = gate();
  const asked = gate();
  const slow = Object.assign(Object.create(pool) as RecordingPool, {
    async query(text: string, values?: unknown[]) {
      const result = await pool.query(text, values);
      if (text.includes("claim_v1")) {
        asked.open();
        await hanging.passed;
      }
      return result;
    },
  });
  const worker = new Worker(slow, { queues: ["mail"], logger, graceMs: 10, abortGraceMs: 10 }).handle("a", () => {});
  const id = await queue.enqueue("a", null, { queue: "mail" });
  void worker.run();
  await asked.passed;
  expect(await worker.stop()).toMatchObject({ stage: "aborting", leftovers: [] });
  hanging.open();
  await pool.untilSent(/release_v1/);
  expect(await stored(id)).toMatchObject({ state: "ready", attempt: 0 });
});

test("a logger that throws does no harm", async () => {
  const throwing = () => {
    throw new Error("no disk");
  };
  const bad = { debug: throwing, info: throwing, warn: throwing, error: throwing };
  const worker = make({ logger: bad }).handle("a", () => Promise.reject(new Error("x")));
  const id = await queue.enqueue("a", null, { queue: "mail", maxAttempts: 1 });
  void worker.run();
  await pool.untilSent(/fail_v1/);
  expect((await worker.stop()).ended).toMatchObject({ failed: 1 });
  expect(await stored(id)).toMatchObject({ state: "failed" });
});
