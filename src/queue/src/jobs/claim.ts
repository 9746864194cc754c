import { bounds } from "@workhorse/sql";
import { call } from "../call";
import type { Executor, ExecutorOption } from "../executor";
import { column, type Row } from "../rows";
import { checkExecutor, checkInteger, checkKeys, checkName, refuseArgument } from "../validation";
import type { Claim, ClaimedJob, ClaimReason } from "./types";

/** What a claim asks for. */
export interface ClaimOptions extends ExecutorOption {
  /** Default: `default`. */
  readonly queue?: string | undefined;
  /** Who claims, 1 to 256 bytes: shown to operators. */
  readonly workerId: string;
  /** Jobs to start at most: an integer, 1 to 1,000. Ask only for what can start at once. Default: 1. */
  readonly maxJobs?: number | undefined;
  /** How long the jobs are held without a heartbeat, in milliseconds: an integer, 100 to 86,400,000. Default: 30,000. */
  readonly leaseMs?: number | undefined;
}

/** Checks the options of a claim and fills in the defaults. Throws InvalidArgumentError. */
export function checkClaimOptions(options: ClaimOptions): {
  readonly queue: string;
  readonly workerId: string;
  readonly maxJobs: number;
  readonly leaseMs: number;
} {
  const refuse = refuseArgument("claim");
  checkKeys<ClaimOptions>(options, ["queue", "workerId", "maxJobs", "leaseMs", "executor"], "options", refuse);
  checkExecutor(options.executor, "options.executor", refuse);
  const { queue = "default", workerId, maxJobs = 1, leaseMs = 30_000 } = options as ClaimOptions;
  return {
    queue: checkName(queue, "options.queue", refuse),
    workerId: checkName(workerId, "options.workerId", refuse),
    maxJobs: checkInteger(maxJobs, bounds.claimedJobs, "options.maxJobs", refuse),
    leaseMs: checkInteger(leaseMs, bounds.leaseMs, "options.leaseMs", refuse),
  };
}

/** One call of claim_v1. */
export async function claim(executor: Executor, options: ReturnType<typeof checkClaimOptions>): Promise<Claim> {
  const rows = await call(
    executor,
    `SELECT id::text AS id, queue_name, type, payload::text AS payload, concurrency_key, priority, attempt, max_attempts,
       fence_token::text AS fence_token, created_at, started_at, lease_expires_at, next_eligible_at, wait_ms, reason
     FROM workhorse.claim_v1($1, $2, $3, $4)`,
    [options.queue, options.workerId, options.maxJobs, options.leaseMs],
  );
  const jobs: ClaimedJob[] = [];
  let rest: Omit<Claim, "jobs"> = { nextEligibleAt: null, waitMs: null, reason: null };
  for (const row of rows) {
    if (column.textOrNull(row, "id") !== null) jobs.push(toJob(row));
    else {
      rest = {
        nextEligibleAt: column.dateOrNull(row, "next_eligible_at"),
        waitMs: column.numberOrNull(row, "wait_ms"),
        reason: column.textOrNull(row, "reason") as ClaimReason | null,
      };
    }
  }
  return { jobs, ...rest };
}

function toJob(row: Row): ClaimedJob {
  return {
    id: column.text(row, "id"),
    fenceToken: column.text(row, "fence_token"),
    queue: column.text(row, "queue_name"),
    type: column.text(row, "type"),
    payload: column.json(row, "payload"),
    concurrencyKey: column.textOrNull(row, "concurrency_key"),
    priority: column.number(row, "priority"),
    attempt: column.number(row, "attempt"),
    maxAttempts: column.number(row, "max_attempts"),
    createdAt: column.date(row, "created_at"),
    startedAt: column.date(row, "started_at"),
    leaseExpiresAt: column.date(row, "lease_expires_at"),
  };
}
