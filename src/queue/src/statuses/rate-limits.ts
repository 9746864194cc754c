import { call } from "../call";
import type { Executor } from "../executor";
import type { Rate } from "../policies/definitions";
import { ratesOf } from "../policies/rate-limits";
import { column, type Row } from "../rows";

/** What a rate limit lets through right now. */
export interface RateLimitStatus {
  readonly queue: string;
  readonly namespace: string;
  readonly rate: Rate;
  readonly perKey: Rate | null;
  /** Whole tokens in the queue's bucket. */
  readonly availableTokens: number;
  /** Ready jobs that wait for tokens of the queue or of their key; counted up to a bound, see `capped`. */
  readonly throttledReady: number;
  /** Keys with a ready job that their own bucket cannot start now; counted up to a bound, see `capped`. */
  readonly throttledKeys: number;
  /** When the next start is due; null when something could start now or nothing is ready. */
  readonly nextEligibleAt: Date | null;
  /** Whether a count stopped at its bound. */
  readonly capped: boolean;
  /** Starts since the policy exists: two readings tell the rate achieved. */
  readonly starts: number;
  /** Until when the whole queue is closed by a back-off; null when it is not. */
  readonly backedOffUntil: Date | null;
}

export async function rateLimitStatuses(
  executor: Executor,
  queues: readonly string[] | undefined,
): Promise<RateLimitStatus[]> {
  const rows = await call(
    executor,
    `SELECT queue_name, namespace, rate_limit, rate_interval_ms, rate_burst,
       per_key_limit, per_key_interval_ms, per_key_burst, available_tokens, throttled_ready, throttled_keys,
       next_eligible_at, capped, starts, backed_off_until
     FROM workhorse.rate_limit_statuses_v1($1) ORDER BY queue_name COLLATE "C"`,
    [queues ?? null],
  );
  return rows.map(toStatus);
}

function toStatus(row: Row): RateLimitStatus {
  return {
    queue: column.text(row, "queue_name"),
    namespace: column.text(row, "namespace"),
    ...ratesOf(row),
    availableTokens: column.number(row, "available_tokens"),
    throttledReady: column.number(row, "throttled_ready"),
    throttledKeys: column.number(row, "throttled_keys"),
    nextEligibleAt: column.dateOrNull(row, "next_eligible_at"),
    capped: column.boolean(row, "capped"),
    starts: column.number(row, "starts"),
    backedOffUntil: column.dateOrNull(row, "backed_off_until"),
  };
}
