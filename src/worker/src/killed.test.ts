import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { type ClaimedJob, Queue } from "@workhorse/queue";
import { withProgram } from "../../../test/support/child-program";
import { type TestDatabase, testDatabase } from "../../../test/support/database";
import { Recording } from "../test/support";
import { silentLogger, Worker } from ".";

let database: TestDatabase;
let queue: Queue;
beforeAll(async () => {
  database = await testDatabase();
  queue = new Queue(database.pool);
});
afterAll(() => database.drop());

/** A worker process whose handlers never end. */
const program = (url: string): string => `
  import { Worker } from "@workhorse/worker";
  import { Pool } from "pg";

  const worker = new Worker(new Pool({ connectionString: ${JSON.stringify(url)} }), { queues: ["mail"], leaseMs: 1_000 });
  worker.handle("a", (job) => {
    console.log(job.id);
    return new Promise(() => {});
  });
  void worker.run();
`;

test("a killed worker's job is run by another, and costs a second token", async () => {
  await queue.syncRateLimitPolicies("test", [{ queue: "mail", rate: { limit: 1, intervalMs: 86_400_000, burst: 10 } }]);
  const id = await queue.enqueue("a", null, { queue: "mail" });
  await withProgram(__dirname, program(database.url), async (child) => {
    expect(await child.line()).toBe(id);
    await child.kill();
  });
  expect(await queue.rateLimitStatuses()).toMatchObject([{ availableTokens: 9, starts: 1 }]);

  const runs = new Recording<ClaimedJob>();
  const worker = new Worker(database.pool, { queues: ["mail"], logger: silentLogger, maintenanceIntervalMs: 100 });
  worker.handle("a", (job) => runs.add(job));
  const running = worker.run();
  await runs.until((all) => all.length === 1);
  await worker.stop();
  expect((await running).ended).toMatchObject({ completed: 1 });
  expect(runs.all).toMatchObject([{ id, attempt: 2, fenceToken: "2" }]);
  expect(await queue.rateLimitStatuses()).toMatchObject([{ availableTokens: 8, starts: 2 }]);
});

test("a worker process ends by itself once its worker and its pool have ended", async () => {
  const text = `
    import { Worker } from "@workhorse/worker";
    import { Pool } from "pg";

    const pool = new Pool({ connectionString: ${JSON.stringify(database.url)} });
    const worker = new Worker(pool, { queues: ["other"] }).handle("a", () => {
      void worker.stop();
      return "done";
    });
    worker.run().then(async (report) => {
      await pool.end();
      console.log(JSON.stringify(report.ended));
    });
  `;
  await queue.enqueue("a", null, { queue: "other" });
  await withProgram(__dirname, text, async (child) => {
    expect(JSON.parse(await child.line())).toMatchObject({ completed: 1 });
    const ended = new Promise((resolve) => child.process.once("exit", resolve));
    if (child.process.exitCode === null) await ended;
    expect(child.process.exitCode).toBe(0); // nothing kept it alive
  });
});
