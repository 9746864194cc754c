import { Queue } from "@workhorse/queue";
import { silentLogger, Worker } from "@workhorse/worker";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { Pool } from "pg";
import PgBoss from "pg-boss";
import { withDatabase } from "./database";
import { formatResults, interleave, timed, type Variant } from "./measure";
import type { Suite } from "./suite";

const jobs = 5_000;
/** Jobs that one statement enqueues, for each of them. */
const chunk = 1_000;
const concurrency = 500;
const connections = 12;
const plenty = { limit: 1_000_000, intervalMs: 1, burst: 1_000_000 };

/** A queue system whose workers run and wait. */
interface Contestant {
  readonly name: string;
  /** How it was set up, for the reader to judge. */
  readonly settings: string;
  enqueue(count: number): Promise<void>;
  /** Jobs that are not completed, as the database has it. */
  readonly unfinished: string;
  /** Told when a handler has run. */
  onJob: () => void;
  stop(): Promise<void>;
}

export const peersSuite: Suite = {
  name: "peers",
  about: "enqueue to completion of jobs that do nothing, beside graphile-worker and pg-boss",
  run: ({ rounds, print }) =>
    withDatabase(async (connect, version, url) => {
      const owner = await connect();
      const contestants: Contestant[] = [];
      try {
        contestants.push(await graphileWorker(url), await pgBoss(url));
        await owner.query("SELECT workhorse.sync_rate_limit_policies_v1('bench', $1)", [
          JSON.stringify([
            { queue: "bucket", rate: plenty },
            { queue: "keyed", rate: plenty, perKey: plenty },
          ]),
        ]);
        for (const queue of ["free", "bucket", "keyed"]) contestants.push(await workhorse(url, queue));
        print(
          `${jobs.toLocaleString("en-US")} jobs, PostgreSQL ${version}, ${rounds} rounds; ratio of jobs per second`,
        );
        for (const { name, settings } of contestants) print(`  ${name}: ${settings}`);
        const variants = contestants.map(
          (contestant): Variant => ({
            name: contestant.name,
            prepare: () => untilNone(async () => (await owner.query(contestant.unfinished)).rowCount === 0),
            measure: async () => (jobs / (await timed(() => runAll(contestant, owner)))) * 1_000,
          }),
        );
        print(formatResults("jobs/s", await interleave(variants, rounds)));
      } finally {
        await Promise.all(contestants.map((contestant) => contestant.stop()));
      }
    }),
};

async function runAll(contestant: Contestant, owner: { query(text: string): Promise<{ rowCount: number | null }> }) {
  let ran = 0;
  const all = new Promise<void>((resolve) => {
    contestant.onJob = () => {
      ran += 1;
      if (ran === jobs) resolve();
    };
  });
  await contestant.enqueue(jobs);
  await all;
  await untilNone(async () => (await owner.query(contestant.unfinished)).rowCount === 0);
}

/** Handlers are counted here, so what is left to wait for is the last completions. */
async function untilNone(none: () => Promise<boolean>): Promise<void> {
  while (!(await none())) await new Promise((resolve) => setTimeout(resolve, 2));
}

async function inChunks(count: number, enqueue: (size: number) => Promise<unknown>): Promise<void> {
  for (let left = count; left > 0; left -= chunk) await enqueue(Math.min(chunk, left));
}

async function workhorse(url: string, queueName: string): Promise<Contestant> {
  const pool = new Pool({ connectionString: url, max: connections });
  const queue = new Queue(pool);
  const worker = new Worker(pool, { queues: [queueName], concurrency, logger: silentLogger });
  const limits = { free: "no limits", bucket: "a rate limit", keyed: "limits per queue and key, 100 keys" }[queueName];
  let number = 0;
  const contestant: Contestant = {
    name: `Workhorse, ${limits}`,
    settings: `concurrency ${concurrency}`,
    onJob: () => {},
    enqueue: (count) =>
      inChunks(count, (size) =>
        queue.enqueueMany(
          Array.from({ length: size }, () => ({
            type: "nothing",
            queue: queueName,
            concurrencyKey: queueName === "keyed" ? `key ${number++ % 100}` : null,
            payload: {},
          })),
        ),
      ),
    unfinished: `SELECT FROM workhorse.job WHERE queue_name = '${queueName}' AND state IN ('ready', 'active') LIMIT 1`,
    stop: async () => {
      await worker.stop();
      await pool.end();
    },
  };
  worker.handle("nothing", () => contestant.onJob());
  void worker.run();
  return contestant;
}

/** As its chapter on performance has it: a local queue, and completions in batches. */
async function graphileWorker(url: string): Promise<Contestant> {
  const pgPool = new Pool({ connectionString: url, max: connections });
  const size = 500;
  const contestant: Contestant = {
    name: "graphile-worker",
    settings: `concurrentJobs ${concurrency}, localQueue.size ${size}, completeJobBatchDelay 0, failJobBatchDelay 0`,
    onJob: () => {},
    enqueue: (count) =>
      inChunks(count, (size) =>
        utils.addJobs(Array.from({ length: size }, () => ({ identifier: "nothing", payload: {} }))),
      ),
    unfinished: "SELECT FROM graphile_worker.jobs LIMIT 1",
    stop: async () => {
      await runner.stop();
      await utils.release();
      await pgPool.end();
    },
  };
  const logger = new Logger(() => () => {});
  const utils = await makeWorkerUtils({ pgPool, logger });
  const runner = await run({
    pgPool,
    noHandleSignals: true,
    logger,
    taskList: { nothing: () => contestant.onJob() },
    preset: {
      worker: {
        concurrentJobs: concurrency,
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        localQueue: { size },
      },
    },
  });
  return contestant;
}

/** Fetches and completes whole batches; told of new jobs, it does not wait for its next poll. */
async function pgBoss(url: string): Promise<Contestant> {
  const boss = new PgBoss({ connectionString: url, max: connections, schedule: false });
  const batchSize = 2_000;
  boss.on("error", (error) => {
    throw error;
  });
  await boss.start();
  await boss.createQueue("nothing");
  const contestant: Contestant = {
    name: "pg-boss",
    settings: `batchSize ${batchSize}, pollingIntervalSeconds 0.5, notifyWorker after each insert and batch`,
    onJob: () => {},
    enqueue: (count) =>
      inChunks(count, async (size) => {
        await boss.insert(Array.from({ length: size }, () => ({ name: "nothing", data: {} })));
        boss.notifyWorker(worker);
      }),
    unfinished: "SELECT FROM pgboss.job WHERE name = 'nothing' AND state < 'completed' LIMIT 1",
    stop: () => boss.stop({ graceful: false, wait: true }),
  };
  const worker: string = await boss.work("nothing", { batchSize, pollingIntervalSeconds: 0.5 }, async (batch) => {
    boss.notifyWorker(worker);
    for (const _ of batch) contestant.onJob();
  });
  return contestant;
}
