import { type Bound, bounds } from "@workhorse/sql";
import { call } from "../call";
import type { Executor, ExecutorOption } from "../executor";
import { column } from "../rows";
import { checkExecutor, checkInteger, checkKeys, checkName, refuseArgument, shown, unstorable } from "../validation";
import type { RecoveredJob } from "./types";

/** Options of `backOff`. */
export interface BackOffOptions extends ExecutorOption {
  /** The concurrency key to close. Default: null, the whole queue. */
  readonly key?: string | null | undefined;
  /** For how long, in milliseconds: an integer, 0 to 365 days. 0 lifts the back-off. */
  readonly forMs: number;
  /** Shown in statuses: at most 1,000 characters. Default: none. */
  readonly reason?: string | undefined;
}

/** Options of `sweep`. */
export interface SweepOptions extends ExecutorOption {
  /** How long finished jobs are kept, in milliseconds: an integer, 0 to 365 days. Default: 7 days. */
  readonly keepMs?: number | undefined;
}

/** Jobs that one step of maintenance works on at most. */
export const limitBound: Bound = { min: 1, max: 10_000 };

const longestReason = 1_000;

export function checkBackOff(queue: string, options: BackOffOptions): void {
  const refuse = refuseArgument("backOff");
  checkName(queue, "queue", refuse);
  checkKeys<BackOffOptions>(options, ["key", "forMs", "reason", "executor"], "options", refuse);
  checkExecutor(options.executor, "options.executor", refuse);
  checkInteger(options.forMs, bounds.delayMs, "options.forMs", refuse);
  if (options.key !== undefined && options.key !== null) checkName(options.key, "options.key", refuse);
  const { reason } = options as BackOffOptions;
  if (reason === undefined) return;
  // PostgreSQL counts characters, of which a string never has more than UTF-16 units.
  if (typeof reason !== "string" || reason.length > longestReason || unstorable.test(reason)) {
    const accepted = `a string of at most ${longestReason.toLocaleString("en-US")} characters, none of them NUL`;
    throw refuse({ path: "options.reason", got: shown(reason), accepted });
  }
}

export async function backOff(executor: Executor, queue: string, options: BackOffOptions): Promise<Date | null> {
  const [row] = await call(executor, "SELECT workhorse.back_off_v1($1, $2, $3, $4) AS until", [
    queue,
    options.key ?? null,
    options.forMs,
    options.reason ?? null,
  ]);
  return column.dateOrNull(row!, "until");
}

export async function cancel(executor: Executor, id: string): Promise<"ready" | "scheduled" | "active" | null> {
  const [row] = await call(executor, "SELECT workhorse.cancel_v1($1) AS state", [id]);
  return column.textOrNull(row!, "state") as "ready" | "scheduled" | "active" | null;
}

export async function recoverExpired(executor: Executor, limit: number): Promise<RecoveredJob[]> {
  const rows = await call(
    executor,
    "SELECT job_id::text AS job_id, queue_name, state FROM workhorse.recover_expired_v1($1)",
    [limit],
  );
  return rows.map((row) => ({
    id: column.text(row, "job_id"),
    queue: column.text(row, "queue_name"),
    state: column.text(row, "state") as RecoveredJob["state"],
  }));
}

export async function promote(executor: Executor, limit: number): Promise<number> {
  const [row] = await call(executor, "SELECT workhorse.promote_v1($1) AS promoted", [limit]);
  return column.number(row!, "promoted");
}

export function checkSweepOptions(options: SweepOptions): void {
  const refuse = refuseArgument("sweep");
  checkKeys<SweepOptions>(options, ["keepMs", "executor"], "options", refuse);
  if (options.keepMs !== undefined) checkInteger(options.keepMs, bounds.delayMs, "options.keepMs", refuse);
}

export async function sweep(executor: Executor, limit: number, options: SweepOptions): Promise<number> {
  const { keepMs = 7 * 24 * 3_600_000 } = options;
  const [row] = await call(executor, "SELECT workhorse.sweep_v1($1, $2) AS removed", [limit, keepMs]);
  return column.number(row!, "removed");
}
