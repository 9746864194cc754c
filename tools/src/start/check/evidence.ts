import type { Pool } from "pg";
import type { Period } from "./slots";

/** One start of one job. */
export interface Start {
  /** As PostgreSQL dated it, in microseconds since 1970: the claim's reading of the clock. */
  readonly startedUs: bigint;
  /**
   * When its handler ran, where the handler told, by the machine's monotonic clock. The caps are judged by it: a job gives
   * up its slot after that, and a claim reads the clock before it counts the slots, so a slot that is given up in between
   * would seem to be taken twice by PostgreSQL's times.
   */
  readonly ran: Period | undefined;
  readonly job: string;
  readonly queue: string;
  readonly key: string | null;
  /** Jobs start in ascending order of their place, as far as their limits let them. */
  readonly place: bigint;
  /** How often the job was started; PostgreSQL keeps the time of the last start only. */
  readonly count: number;
  readonly state: string;
  readonly worker: string;
}

/** What PostgreSQL knows of all that was started so far, read at one moment. */
export interface Evidence {
  /** By time. */
  readonly starts: readonly Start[];
  /** What the queues' own counters say, for those that have one. */
  readonly counted: ReadonlyMap<string, number>;
  /** The places of the jobs that wait, by queue and key, lowest first: `waiting.get(queue)?.get(key)`. */
  readonly waiting: ReadonlyMap<string, ReadonlyMap<string, readonly bigint[]>>;
  readonly readAtUs: bigint;
}

interface JobRow {
  readonly id: string;
  readonly queue_name: string;
  readonly concurrency_key: string | null;
  readonly place: string;
  readonly fence_token: string;
  readonly state: string;
  readonly worker_id: string | null;
  readonly started_us: string | null;
  readonly ran: { readonly fromUs: string; readonly toUs: string } | null;
}

/** Reads the evidence. It is read from the tables themselves, not through the functions that are to be checked. */
export async function readEvidence(pool: Pool): Promise<Evidence> {
  const client = await pool.connect();
  try {
    // One snapshot, so that the counters and the jobs are of the same moment.
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    const jobs = await client.query<JobRow>(
      `SELECT id, queue_name, concurrency_key, place, fence_token, state::text, worker_id,
         (extract(epoch FROM started_at) * 1000000)::bigint AS started_us, result AS ran
       FROM workhorse.job ORDER BY started_at, place`,
    );
    const counters = await client.query<{ queue_name: string; starts: string }>(
      "SELECT queue_name, starts FROM workhorse.rate_limit_statuses_v1(NULL)",
    );
    const clock = await client.query<{ now_us: string }>(
      "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us",
    );
    await client.query("COMMIT");
    return {
      starts: jobs.rows.filter((row) => row.started_us !== null).map(toStart),
      counted: new Map(counters.rows.map((row) => [row.queue_name, Number(row.starts)])),
      waiting: waitingPlaces(jobs.rows),
      readAtUs: BigInt(clock.rows[0]!.now_us),
    };
  } finally {
    client.release();
  }
}

function toStart(row: JobRow): Start {
  return {
    job: row.id,
    queue: row.queue_name,
    key: row.concurrency_key,
    place: BigInt(row.place),
    count: Number(row.fence_token),
    state: row.state,
    worker: row.worker_id ?? "",
    startedUs: BigInt(row.started_us!),
    ran: row.ran === null ? undefined : { fromUs: BigInt(row.ran.fromUs), toUs: BigInt(row.ran.toUs) },
  };
}

function waitingPlaces(rows: readonly JobRow[]): Map<string, Map<string, bigint[]>> {
  const queues = new Map<string, Map<string, bigint[]>>();
  for (const row of rows) {
    if (row.state !== "ready" || row.concurrency_key === null) continue;
    const keys = queues.get(row.queue_name) ?? new Map<string, bigint[]>();
    queues.set(row.queue_name, keys);
    keys.set(row.concurrency_key, [...(keys.get(row.concurrency_key) ?? []), BigInt(row.place)].sort(byValue));
  }
  return queues;
}

const byValue = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0);
