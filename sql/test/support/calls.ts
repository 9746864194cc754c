import type { Client, Pool, PoolClient, QueryResultRow } from "pg";

/** Where a call runs. */
export type Executor = Pool | Client | PoolClient;

export interface Rate {
  readonly limit: number;
  readonly intervalMs: number;
  readonly burst: number;
}

export interface RateLimit {
  readonly queue: string;
  readonly rate: Rate;
  readonly perKey?: Rate | null;
}

export interface Cap {
  readonly queue: string;
  readonly maxActive: number;
  readonly maxActivePerKey?: number | null;
}

export interface NewJob {
  readonly type?: string;
  readonly queue: string;
  readonly concurrencyKey?: string;
  readonly [field: string]: unknown;
}

/** A started job, as claim_v1 returns it. 64-bit integers are text. */
export interface Started {
  readonly id: string;
  readonly queue_name: string;
  readonly type: string;
  readonly payload: unknown;
  readonly concurrency_key: string | null;
  readonly priority: number;
  readonly attempt: number;
  readonly max_attempts: number;
  readonly fence_token: string;
  readonly created_at: Date;
  readonly started_at: Date;
  readonly lease_expires_at: Date;
  /** started_at and lease_expires_at in whole microseconds since 1970. */
  readonly started_us: bigint;
  readonly lease_us: bigint;
}

/** The last row of a claim that started fewer jobs than asked for. */
export interface Answer {
  /** Microseconds since 1970. */
  readonly nextUs: bigint | null;
  readonly waitMs: number | null;
  readonly reason: string;
}

export interface Claimed {
  readonly jobs: Started[];
  readonly answer: Answer | null;
}

/** Runs a text that has one statement and returns its rows. */
export async function rows<Row extends QueryResultRow = QueryResultRow>(
  executor: Executor,
  text: string,
  values: unknown[] = [],
): Promise<Row[]> {
  return (await executor.query<Row>(text, values)).rows;
}

const json = (value: unknown): unknown => (value === undefined ? null : JSON.stringify(value));

export function syncRateLimits(
  executor: Executor,
  namespace: string | null,
  definitions: readonly RateLimit[] | unknown,
  prune?: boolean | null,
) {
  const values = [namespace, json(definitions), ...(prune === undefined ? [] : [prune])];
  const call = `workhorse.sync_rate_limit_policies_v1(${values.map((_, i) => `$${i + 1}`)})`;
  return rows(executor, `SELECT * FROM ${call}`, values);
}

export function syncCaps(
  executor: Executor,
  namespace: string | null,
  definitions: readonly Cap[] | unknown,
  prune?: boolean | null,
) {
  const values = [namespace, json(definitions), ...(prune === undefined ? [] : [prune])];
  const call = `workhorse.sync_concurrency_policies_v1(${values.map((_, i) => `$${i + 1}`)})`;
  return rows(executor, `SELECT * FROM ${call}`, values);
}

/** Enqueues jobs (of type "t" unless they say otherwise) and returns their ids, in order. */
export async function enqueue(executor: Executor, ...jobs: NewJob[]): Promise<string[]> {
  const given = jobs.map((job) => ({ type: "t", ...job }));
  const found = await rows<{ id: string }>(executor, "SELECT workhorse.enqueue_v1($1) AS id", [json(given)]);
  return found.map(({ id }) => id);
}

/** Defaults: at most 1 job, leased for a minute, by worker "w". */
export async function claim(
  executor: Executor,
  queue: string,
  { most = 1, leaseMs = 60_000, worker = "w" } = {},
): Promise<Claimed> {
  const found = await rows(
    executor,
    `SELECT *, (extract(epoch FROM started_at) * 1000000)::bigint AS started_us,
       (extract(epoch FROM lease_expires_at) * 1000000)::bigint AS lease_us,
       (extract(epoch FROM next_eligible_at) * 1000000)::bigint AS next_us
     FROM workhorse.claim_v1($1, $2, $3, $4)`,
    [queue, worker, most, leaseMs],
  );
  const jobs = found
    .filter((row) => row.id !== null)
    .map(
      ({ next_us, next_eligible_at, wait_ms, reason, ...job }) =>
        ({ ...job, started_us: BigInt(job.started_us), lease_us: BigInt(job.lease_us) }) as Started,
    );
  const last = found.at(-1);
  const answer =
    last && last.id === null
      ? {
          nextUs: last.next_us === null ? null : BigInt(last.next_us),
          waitMs: last.wait_ms === null ? null : Number(last.wait_ms),
          reason: last.reason as string,
        }
      : null;
  return { jobs, answer };
}

/** What a holder hands in with each call. */
export interface Held {
  readonly id: string;
  readonly fence_token: string;
}

export const complete = (executor: Executor, job: Held, result: unknown = null) =>
  executor.query("SELECT workhorse.complete_v1($1, $2, $3)", [job.id, job.fence_token, JSON.stringify(result)]);

/** Returns the ids of those whose lease is lost. */
export async function completeMany(
  executor: Executor,
  jobs: readonly Held[],
  results: readonly (string | null)[] | null = null,
): Promise<string[]> {
  const ids = jobs.map((job) => job.id);
  const tokens = jobs.map((job) => job.fence_token);
  const lost = await rows(executor, "SELECT workhorse.complete_many_v1($1, $2, $3) AS id", [ids, tokens, results]);
  return lost.map((row) => row.id);
}

export async function fail(
  executor: Executor,
  job: Held,
  { error = { name: "Error" }, delayMs = null as number | null, giveUp = false } = {},
): Promise<{ state: string; delayMs: number | null; rule: string }> {
  const [outcome] = await rows(executor, "SELECT * FROM workhorse.fail_v1($1, $2, $3, $4, $5)", [
    job.id,
    job.fence_token,
    JSON.stringify(error),
    delayMs,
    giveUp,
  ]);
  return {
    state: outcome!.state,
    delayMs: outcome!.delay_ms === null ? null : Number(outcome!.delay_ms),
    rule: outcome!.rule,
  };
}

export const release = (executor: Executor, job: Held, delayMs?: number) =>
  delayMs === undefined
    ? executor.query("SELECT workhorse.release_v1($1, $2)", [job.id, job.fence_token])
    : executor.query("SELECT workhorse.release_v1($1, $2, $3)", [job.id, job.fence_token, delayMs]);

export async function cancel(executor: Executor, id: string): Promise<string | null> {
  return (await rows(executor, "SELECT workhorse.cancel_v1($1) AS was", [id]))[0]!.was;
}

/** Returns the ids of the jobs whose lease is lost. */
export async function heartbeat(executor: Executor, jobs: readonly Held[], leaseMs = 60_000): Promise<string[]> {
  const lost = await rows(executor, "SELECT workhorse.heartbeat_v1($1, $2, $3) AS id", [
    jobs.map(({ id }) => id),
    jobs.map(({ fence_token }) => fence_token),
    leaseMs,
  ]);
  return lost.map(({ id }) => id);
}

export const backOff = (executor: Executor, queue: string, key: string | null, forMs: number, reason?: string) =>
  executor.query("SELECT workhorse.back_off_v1($1, $2, $3, $4)", [queue, key, forMs, reason ?? null]);

/** Sweeps from the first queue to the last once, in steps of `limit`, and returns how many rows went. */
export async function sweep(
  executor: Executor,
  { limit = 1000, keepMs = 604_800_000 }: { limit?: number; keepMs?: number } = {},
): Promise<number> {
  let removed = 0;
  await executor.query("UPDATE workhorse.sweep_cursor SET queue_name = ''");
  for (;;) {
    const [swept] = await rows(executor, "SELECT workhorse.sweep_v1($1, $2) AS removed", [limit, keepMs]);
    removed += swept!.removed;
    const [cursor] = await rows(executor, "SELECT queue_name FROM workhorse.sweep_cursor");
    if (cursor!.queue_name === "") return removed;
  }
}

/** One call of sweep_v1 that begins with this queue. */
export async function sweepStep(executor: Executor, queue: string, limit: number): Promise<void> {
  await executor.query(
    `UPDATE workhorse.sweep_cursor SET queue_name = coalesce((
       SELECT max(queue_name) FROM workhorse.rate_limit_change WHERE queue_name < $1), '')`,
    [queue],
  );
  await executor.query("SELECT workhorse.sweep_v1($1)", [limit]);
}

/** A job's row. */
export async function jobRow(executor: Executor, id: string) {
  return (await rows(executor, "SELECT * FROM workhorse.job WHERE id = $1", [id]))[0]!;
}
