import type { Queue, QueueHealth } from "@workhorse/queue";
import type { Pool, PoolClient } from "pg";
import { BUSY_CUSTOMER, PROVIDER_API } from "./load";

/** One queue at one moment. */
export interface QueueReading extends QueueHealth {
  readonly startedInSecond: number;
  readonly startedInMinute: number;
  /** Until the next start is due, in milliseconds by PostgreSQL's clock; null when that is now, or nothing is waited for. */
  readonly nextStartMs: number | null;
}

export interface Reading {
  readonly queues: readonly QueueReading[];
  /** Who of provider-api was started in the last minute, and who waits. */
  readonly busy: { readonly started: number; readonly waiting: number };
  readonly others: { readonly started: number };
}

interface StartsRow {
  readonly queue_name: string;
  readonly busy: boolean;
  readonly second: number;
  readonly minute: number;
}

/** Reads all queues, in one snapshot: the tokens that are left beside the starts that took the others. */
export async function read(pool: Pool, queue: Queue): Promise<Reading> {
  const client = await pool.connect();
  let failure: Error | undefined;
  try {
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY");
    const reading = await readBy(client, queue);
    await client.query("COMMIT");
    return reading;
  } catch (error) {
    failure = error as Error;
    throw error;
  } finally {
    client.release(failure); // after a failure the connection is closed, and its transaction with it
  }
}

async function readBy(client: PoolClient, queue: Queue): Promise<Reading> {
  const { queues } = await queue.health({ executor: client });
  // By state, so that the indexes find the few that count among all that ever ran.
  const { rows } = await client.query<StartsRow>(
    `SELECT queue_name, concurrency_key = $1 AS busy,
       count(*) FILTER (WHERE started_at > clock_timestamp() - interval '1 second')::int AS second,
       count(*)::int AS minute
     FROM workhorse.job
     WHERE started_at > clock_timestamp() - interval '60 seconds' AND (state = 'active'
       OR state IN ('completed', 'failed', 'cancelled') AND finished_at > clock_timestamp() - interval '60 seconds')
     GROUP BY 1, 2`,
    [BUSY_CUSTOMER],
  );
  const others = await client.query<{ waiting: number; now: Date }>(
    `SELECT count(*)::int AS waiting, clock_timestamp() AS now FROM workhorse.job
     WHERE queue_name = $1 AND concurrency_key = $2 AND state = 'ready'`,
    [PROVIDER_API, BUSY_CUSTOMER],
  );
  const { waiting, now } = others.rows[0]!;
  const started = (which: (row: StartsRow) => boolean, period: "second" | "minute") =>
    rows.filter(which).reduce((sum, row) => sum + row[period], 0);
  return {
    queues: queues.map((each) => ({
      ...each,
      startedInSecond: started((row) => row.queue_name === each.queue, "second"),
      startedInMinute: started((row) => row.queue_name === each.queue, "minute"),
      nextStartMs: each.nextEligibleAt === null ? null : Math.max(0, each.nextEligibleAt.getTime() - now.getTime()),
    })),
    busy: { started: started((row) => row.queue_name === PROVIDER_API && row.busy, "minute"), waiting },
    others: { started: started((row) => row.queue_name === PROVIDER_API && !row.busy, "minute") },
  };
}
