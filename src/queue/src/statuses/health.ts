import { call } from "../call";
import type { Executor } from "../executor";
import type { ClaimReason } from "../jobs/types";
import { column, type Row } from "../rows";
import { type ConcurrencyStatus, concurrencyStatuses } from "./concurrency";
import { type RateLimitStatus, rateLimitStatuses } from "./rate-limits";

/** One queue: its depth by state, and what its policies let through. */
export interface QueueHealth {
  readonly queue: string;
  /** Counted up to a bound, as ready and active are: see `capped`. */
  readonly scheduled: number;
  readonly ready: number;
  readonly active: number;
  /** Finished in the last hour, as far as they are among the latest 10,000 of all queues. */
  readonly completed: number;
  readonly failed: number;
  readonly cancelled: number;
  /** Whether a count stopped at its bound. */
  readonly capped: boolean;
  /** How long the oldest ready job has been due, in milliseconds; null when none is ready. */
  readonly oldestReadyAgeMs: number | null;
  /** What the ready jobs wait for; null when one could start now, or none is ready. */
  readonly reason: ClaimReason | null;
  /** When the next start is due, if something is waited for. */
  readonly nextEligibleAt: Date | null;
  /** Active jobs whose lease has expired: they wait for a worker's maintenance. */
  readonly expiredLeases: number;
  /** Null without a rate-limit policy. */
  readonly rateLimit: RateLimitStatus | null;
  /** Null without a concurrency policy. */
  readonly concurrency: ConcurrencyStatus | null;
}

/** A reading of all queues. */
export interface Health {
  /** Every queue that has unfinished jobs or a policy (at most 1,000), ordered by the bytes of its name. */
  readonly queues: QueueHealth[];
}

type Depth = Omit<QueueHealth, "queue" | "rateLimit" | "concurrency">;

const noJobs: Depth = {
  scheduled: 0,
  ready: 0,
  active: 0,
  completed: 0,
  failed: 0,
  cancelled: 0,
  capped: false,
  oldestReadyAgeMs: null,
  reason: null,
  nextEligibleAt: null,
  expiredLeases: 0,
};

export async function health(executor: Executor): Promise<Health> {
  // One after the other: the executor may be a single connection.
  const rows = await call(
    executor,
    `SELECT queue_name, scheduled, ready, active, completed, failed, cancelled, capped, oldest_ready_age_ms, expired_leases,
       reason, next_eligible_at
     FROM workhorse.queue_health_v1()`,
    [],
  );
  const rateLimits = new Map((await rateLimitStatuses(executor, undefined)).map((status) => [status.queue, status]));
  const caps = new Map((await concurrencyStatuses(executor, undefined)).map((status) => [status.queue, status]));
  const depths = new Map(rows.map((row) => [column.text(row, "queue_name"), toDepth(row)]));
  const names = [...new Set([...depths.keys(), ...rateLimits.keys(), ...caps.keys()])].sort(byBytes);
  return {
    queues: names.map((queue) => ({
      queue,
      ...(depths.get(queue) ?? noJobs),
      rateLimit: rateLimits.get(queue) ?? null,
      concurrency: caps.get(queue) ?? null,
    })),
  };
}

const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

function toDepth(row: Row): Depth {
  return {
    scheduled: column.number(row, "scheduled"),
    ready: column.number(row, "ready"),
    active: column.number(row, "active"),
    completed: column.number(row, "completed"),
    failed: column.number(row, "failed"),
    cancelled: column.number(row, "cancelled"),
    capped: column.boolean(row, "capped"),
    oldestReadyAgeMs: column.numberOrNull(row, "oldest_ready_age_ms"),
    reason: column.textOrNull(row, "reason") as ClaimReason | null,
    nextEligibleAt: column.dateOrNull(row, "next_eligible_at"),
    expiredLeases: column.number(row, "expired_leases"),
  };
}
