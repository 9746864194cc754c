// One process of the hammer: claims as fast as it may, ends what it claimed in every way there is, and is killed at any time.
import { setTimeout as delay } from "node:timers/promises";
import { type ClaimedJob, Queue } from "@workhorse/queue";
import { Pool } from "pg";

const leaseMs = 1_500;
/** The longest time between two claims, so that neither a notification nor a look at the clock is needed. */
const mostWaitMs = 25;

const [url, queueName, holdMs] = process.argv.slice(2) as [string, string, string];
process.on("disconnect", () => process.exit());

async function work(queue: Queue): Promise<void> {
  const workerId = `hammer ${process.pid}`;
  for (;;) {
    const maxJobs = 1 + Math.floor(Math.random() * 6);
    const { jobs, waitMs } = await queue.claim({ queue: queueName, workerId, maxJobs, leaseMs });
    await Promise.all(
      jobs.map(async (job) => {
        await delay(Math.random() * Number(holdMs));
        await end(queue, job);
      }),
    );
    if (jobs.length < maxJobs) await delay(Math.min(waitMs ?? mostWaitMs, mostWaitMs));
  }
}

/** Leases that are lost are what the hammer is for. */
async function end(queue: Queue, job: ClaimedJob): Promise<void> {
  const chance = Math.random();
  const done =
    chance < 0.85
      ? queue.complete(job)
      : chance < 0.92
        ? queue.fail(job, "hammered", { retryDelayMs: Math.floor(Math.random() * 50) })
        : chance < 0.97
          ? queue.release(job, { delayMs: 0 })
          : queue.completeMany([{ job }]);
  await done.catch((error: unknown) => {
    if ((error as { code?: string }).code !== "WH004") throw error;
  });
}

async function main(): Promise<void> {
  for (;;) {
    const pool = new Pool({ connectionString: url, application_name: "hammer", max: 3 });
    pool.on("error", () => {}); // what fails next tells
    try {
      await pool.query("SELECT 1");
      process.send?.("ready");
      await work(new Queue(pool));
    } catch (error) {
      const { code } = error as { code?: string };
      const expected = code === undefined || /^(57P0[1-5]|08|E[A-Z]+)/.test(code);
      if (!expected) console.error(error);
    }
    await pool.end();
    await delay(20);
  }
}

void main();
