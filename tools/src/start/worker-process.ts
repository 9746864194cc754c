// One worker process of npm start: the program that a user of @workhorse/worker writes, with a parent that stops it.
import { setTimeout as delay } from "node:timers/promises";
import { Worker } from "@workhorse/worker";
import { Pool } from "pg";
import { CAPTURE, MAIL, PROVIDER_API, SEND } from "./load";

/** When a handler ran, as the other system sees it: kept as the job's result, for the check of the caps. */
interface Ran {
  readonly fromUs: string;
  readonly toUs: string;
}

/** A clock that all processes of a machine share, and nobody sets. */
const monotonicUs = (): string => String(process.hrtime.bigint() / 1_000n);

async function main(): Promise<void> {
  const pool = new Pool({ connectionString: process.env.WORKHORSE_DATABASE_URL, max: 5 });
  const stopping = new AbortController();
  process.on("message", () => stopping.abort());
  // The parent is gone, whatever became of it.
  process.on("disconnect", () => process.exit());

  const worker = new Worker(pool, { queues: [PROVIDER_API, MAIL], concurrency: 10 });
  // As long as a call of another system takes.
  worker.handle(CAPTURE, (_, { signal }) => delay(200 + Math.random() * 300, undefined, { signal }));
  worker.handle(SEND, async (_, { signal }): Promise<Ran> => {
    const fromUs = monotonicUs();
    await delay(400 + Math.random() * 500, undefined, { signal });
    return { fromUs, toUs: monotonicUs() };
  });

  process.send?.("ready");
  await worker.run({ signal: stopping.signal });
  await pool.end();
  process.disconnect();
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
