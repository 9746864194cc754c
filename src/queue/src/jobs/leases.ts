import { bounds } from "@workhorse/sql";
import { call } from "../call";
import { InvalidArgumentError, InvalidJobError } from "../errors";
import type { Executor, ExecutorOption } from "../executor";
import { column } from "../rows";
import {
  checkBoolean,
  checkExecutor,
  checkInteger,
  checkKeys,
  faultText,
  type Refuse,
  refuseArgument,
  shown,
} from "../validation";
import { toErrorJson } from "./error-json";
import { toJsonText } from "./json";
import type { FailOutcome, Lease } from "./types";

/** Options of `fail`. */
export interface FailOptions extends ExecutorOption {
  /** Tried again after this delay in milliseconds, 0 to 365 days. Default: what the job's retry policy says. */
  readonly retryDelayMs?: number | undefined;
  /** Fail the job for good, whatever attempts are left. Default: false. */
  readonly giveUp?: boolean | undefined;
}

/** Options of `release`. */
export interface ReleaseOptions extends ExecutorOption {
  /** Not started again before this delay in milliseconds, 0 to 365 days. Default: 30,000. */
  readonly delayMs?: number | undefined;
}

const biggestInteger = 2n ** 63n - 1n;

/** Throws InvalidArgumentError unless the value is a job's id. Returns it. */
export function checkInteger64(value: unknown, path: string, refuse: Refuse): string {
  const accepted = "a 64-bit integer in decimal, as a string";
  if (typeof value !== "string" || !/^\d{1,19}$/.test(value) || BigInt(value) > biggestInteger) {
    throw refuse({ path, got: shown(value), accepted });
  }
  return value;
}

/** Throws InvalidArgumentError unless the value is a lease. */
export function checkLease(value: unknown, path: string, refuse: Refuse): Lease {
  if (typeof value !== "object" || value === null) {
    throw refuse({ path, got: shown(value), accepted: "a job that claim returned" });
  }
  const { id, fenceToken } = value as Partial<Lease>;
  return {
    id: checkInteger64(id, `${path}.id`, refuse),
    fenceToken: checkInteger64(fenceToken, `${path}.fenceToken`, refuse),
  };
}

/** Checks the arguments of `complete`. Returns the result as JSON text. */
export function resultText(job: Lease, result: unknown): string | null {
  if (result === undefined) return null;
  return toJsonText(
    result,
    "result",
    (fault, options) =>
      new InvalidJobError(`the result of job ${job.id} cannot be stored: ${faultText(fault)}.`, fault, options),
  );
}

export async function complete(executor: Executor, lease: Lease, result: string | null): Promise<void> {
  await call(executor, "SELECT workhorse.complete_v1($1, $2, $3)", [lease.id, lease.fenceToken, result], "job");
}

export function checkFailOptions(options: FailOptions): void {
  const refuse = refuseArgument("fail");
  checkKeys<FailOptions>(options, ["retryDelayMs", "giveUp", "executor"], "options", refuse);
  checkExecutor(options.executor, "options.executor", refuse);
  if (options.retryDelayMs !== undefined) {
    checkInteger(options.retryDelayMs, bounds.delayMs, "options.retryDelayMs", refuse);
  }
  if (options.giveUp !== undefined) checkBoolean(options.giveUp, "options.giveUp", refuse);
}

export async function fail(
  executor: Executor,
  lease: Lease,
  error: unknown,
  options: FailOptions,
): Promise<FailOutcome> {
  const [row] = await call(executor, "SELECT state, delay_ms, rule FROM workhorse.fail_v1($1, $2, $3, $4, $5)", [
    lease.id,
    lease.fenceToken,
    JSON.stringify(toErrorJson(error)),
    options.retryDelayMs ?? null,
    options.giveUp ?? false,
  ]);
  return {
    state: column.text(row!, "state") as FailOutcome["state"],
    delayMs: column.numberOrNull(row!, "delay_ms"),
    rule: column.text(row!, "rule"),
  };
}

export function checkReleaseOptions(options: ReleaseOptions): void {
  const refuse = refuseArgument("release");
  checkKeys<ReleaseOptions>(options, ["delayMs", "executor"], "options", refuse);
  checkExecutor(options.executor, "options.executor", refuse);
  if (options.delayMs !== undefined) checkInteger(options.delayMs, bounds.delayMs, "options.delayMs", refuse);
}

export async function release(executor: Executor, lease: Lease, options: ReleaseOptions): Promise<void> {
  const { delayMs = 30_000 } = options;
  await call(executor, "SELECT workhorse.release_v1($1, $2, $3)", [lease.id, lease.fenceToken, delayMs]);
}

export function checkHeartbeat(jobs: readonly Lease[], leaseMs: number): Lease[] {
  const refuse = refuseArgument("heartbeat");
  checkInteger(leaseMs, bounds.leaseMs, "leaseMs", refuse);
  if (!Array.isArray(jobs)) {
    const fault = { path: "jobs", got: shown(jobs), accepted: "an array of jobs that claim returned" };
    throw new InvalidArgumentError(`invalid call of heartbeat: ${faultText(fault)}.`, fault);
  }
  return jobs.map((job, index) => checkLease(job, `jobs[${index}]`, refuse));
}

export async function heartbeat(executor: Executor, leases: readonly Lease[], leaseMs: number): Promise<string[]> {
  if (leases.length === 0) return [];
  const rows = await call(executor, "SELECT lost.id::text AS id FROM workhorse.heartbeat_v1($1, $2, $3) AS lost (id)", [
    leases.map((lease) => lease.id),
    leases.map((lease) => lease.fenceToken),
    leaseMs,
  ]);
  return rows.map((row) => column.text(row, "id"));
}
