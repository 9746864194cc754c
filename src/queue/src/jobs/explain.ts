import { call } from "../call";
import type { Executor } from "../executor";
import { column, type Row } from "../rows";
import type { ClaimReason } from "./types";

/** Where a job is, and what it waits for. */
export interface JobExplanation {
  readonly id: string;
  readonly queue: string;
  readonly concurrencyKey: string | null;
  readonly state: "scheduled" | "ready" | "active" | "completed" | "failed" | "cancelled";
  /** Starts so far that count. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /**
   * A ready job's: what a claim would answer, `empty` when only a worker's claim is missing, `turn` when others come first. A
   * job's that was once active: `lease_expired` when it waits for maintenance. Else its state.
   */
  readonly reason: ClaimReason | "turn" | "lease_expired" | Exclude<JobExplanation["state"], "ready">;
  /** The same for people. */
  readonly message: string;
  /** Ready jobs that come before it; null when it is not ready. */
  readonly ahead: number | null;
  /** Whether that count stopped at its bound. */
  readonly aheadCapped: boolean;
  /** When it could start at the earliest; null: now, or unknown. */
  readonly earliestAt: Date | null;
  /** Of an active job. */
  readonly leaseExpiresAt: Date | null;
}

export async function explain(executor: Executor, id: string): Promise<JobExplanation | null> {
  const [row] = await call(executor, "SELECT workhorse.explain_job_v1($1)::text AS explanation", [id]);
  const fields = column.json(row!, "explanation") as Row | null;
  if (fields === null) return null;
  return {
    id: column.text(fields, "id"),
    queue: column.text(fields, "queue"),
    concurrencyKey: column.textOrNull(fields, "key"),
    state: column.text(fields, "state") as JobExplanation["state"],
    attempt: column.number(fields, "attempt"),
    maxAttempts: column.number(fields, "max_attempts"),
    reason: column.text(fields, "reason") as JobExplanation["reason"],
    message: column.text(fields, "message"),
    ahead: column.numberOrNull(fields, "ahead"),
    aheadCapped: fields.ahead_capped === true,
    earliestAt: column.dateOrNull(fields, "earliest_at"),
    leaseExpiresAt: column.dateOrNull(fields, "lease_expires_at"),
  };
}
