import { bounds } from "@workhorse/sql";
import { call } from "../call";
import { InvalidJobError } from "../errors";
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

function checkArray<T>(value: readonly T[], path: string, accepted: string, refuse: Refuse): readonly T[] {
  if (!Array.isArray(value)) throw refuse({ path, got: shown(value), accepted });
  return value;
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

/** A job that is done, and what it returned. */
export interface Completion {
  readonly job: Lease;
  /** Anything that JSON can hold. Default: none. */
  readonly result?: unknown;
}

/** Checks the argument of `completeMany`. */
export function checkCompletions(completions: readonly Completion[]): { lease: Lease; result: string | null }[] {
  const refuse = refuseArgument("completeMany");
  return checkArray(completions, "completions", "an array of {job, result}", refuse).map((completion, index) => {
    const path = `completions[${index}]`;
    checkKeys<Completion>(completion, ["job", "result"], path, refuse);
    const { job, result } = completion as Completion;
    const lease = checkLease(job, `${path}.job`, refuse);
    return { lease, result: resultText(lease, result) };
  });
}

export async function completeMany(
  executor: Executor,
  completions: readonly { readonly lease: Lease; readonly result: string | null }[],
): Promise<string[]> {
  if (completions.length === 0) return [];
  const rows = await call(
    executor,
    "SELECT lost.id::text AS id FROM workhorse.complete_many_v1($1, $2, $3) AS lost (id)",
    [
      completions.map(({ lease }) => lease.id),
      completions.map(({ lease }) => lease.fenceToken),
      completions.map(({ result }) => result),
    ],
    "job",
  );
  return rows.map((row) => column.text(row, "id"));
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
  const held = checkArray(jobs, "jobs", "an array of jobs that claim returned", refuse);
  return held.map((job, index) => checkLease(job, `jobs[${index}]`, refuse));
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
