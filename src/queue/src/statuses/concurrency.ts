import { call } from "../call";
import type { Executor } from "../executor";
import { column, type Row } from "../rows";

/** What a concurrency policy lets through right now. */
export interface ConcurrencyStatus {
  readonly queue: string;
  readonly namespace: string;
  readonly maxActive: number;
  readonly maxActivePerKey: number | null;
  /** Active jobs with an unexpired lease. */
  readonly active: number;
  /** Ready jobs that wait for a slot of the queue or of their key; counted up to a bound, see `capped`. */
  readonly blockedReady: number;
  /** Keys with a ready job and no free slot of their own; counted up to a bound, see `capped`. */
  readonly blockedKeys: number;
  /** Whether a count stopped at its bound. */
  readonly capped: boolean;
}

export async function concurrencyStatuses(
  executor: Executor,
  queues: readonly string[] | undefined,
): Promise<ConcurrencyStatus[]> {
  const rows = await call(
    executor,
    `SELECT queue_name, namespace, max_active, max_active_per_key, active, blocked_ready, blocked_keys, capped
     FROM workhorse.concurrency_statuses_v1($1) ORDER BY queue_name COLLATE "C"`,
    [queues ?? null],
  );
  return rows.map(toStatus);
}

function toStatus(row: Row): ConcurrencyStatus {
  return {
    queue: column.text(row, "queue_name"),
    namespace: column.text(row, "namespace"),
    maxActive: column.number(row, "max_active"),
    maxActivePerKey: column.numberOrNull(row, "max_active_per_key"),
    active: column.number(row, "active"),
    blockedReady: column.number(row, "blocked_ready"),
    blockedKeys: column.number(row, "blocked_keys"),
    capped: column.boolean(row, "capped"),
  };
}
