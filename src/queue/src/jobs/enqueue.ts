import { type Bound, bounds } from "@workhorse/sql";
import { call } from "../call";
import { InvalidJobError } from "../errors";
import type { Executor } from "../executor";
import { column } from "../rows";
import { checkInteger, checkKeys, checkName, checkNumber, faultText, grouped, type Refuse, shown } from "../validation";
import { toJsonText } from "./json";
import type { JobOptions, NewJob, RetryPolicy } from "./types";

/** The options that a job may have, by name. */
export const jobOptionNames = [
  "queue",
  "concurrencyKey",
  "priority",
  "runAt",
  "delayMs",
  "maxAttempts",
  "retryPolicy",
] as const satisfies ReadonlyArray<keyof JobOptions>;

/** A job as enqueue_v1 takes it: JSON text. */
export type JobText = string;

/** Checks one job; `optionsPath` is where its options stand. Throws InvalidJobError. */
export function jobText(job: NewJob, path: string, optionsPath: string, index?: number): JobText {
  const refuse = refuseJob(job, index);
  const prefix = path === "" ? "" : `${path}.`;
  const fields = {
    type: checkName(job.type, `${prefix}type`, refuse),
    ...optionFields(job, optionsPath, refuse),
  };
  const text = JSON.stringify(fields);
  if (job.payload === undefined) return text;
  return `${text.slice(0, -1)},"payload":${toJsonText(job.payload, `${prefix}payload`, refuse)}}`;
}

/** Checks a list of jobs. Throws InvalidJobError that points at the first one at fault. */
export function jobTexts(jobs: unknown): JobText[] {
  const { max } = bounds.enqueuedJobs;
  if (!Array.isArray(jobs) || jobs.length > max) {
    const got = Array.isArray(jobs) ? `an array of ${grouped(jobs.length)}` : shown(jobs);
    throw refuseJob(undefined)({ path: "jobs", got, accepted: `an array of at most ${grouped(max)} jobs` });
  }
  return Array.from(jobs as unknown[], (job, index) => {
    const path = `jobs[${index}]`;
    checkKeys<NewJob>(job, ["type", "payload", ...jobOptionNames], path, refuseJob(job, index));
    return jobText(job as NewJob, path, path, index);
  });
}

/** One statement; the ids come in the order of the jobs. */
export async function insertJobs(executor: Executor, texts: readonly JobText[]): Promise<string[]> {
  if (texts.length === 0) return [];
  const rows = await call(
    executor,
    "SELECT e.id::text AS id FROM workhorse.enqueue_v1($1) WITH ORDINALITY AS e (id, place) ORDER BY e.place",
    [`[${texts.join(",")}]`],
    "job",
  );
  return rows.map((row) => column.text(row, "id"));
}

/** Refusals of a job. */
export function refuseJob(job: unknown, index?: number): Refuse {
  const type = (job as { type?: unknown } | null | undefined)?.type;
  const named = typeof type === "string" && type !== "" ? ` of type ${shown(type)}` : "";
  return (fault, options) =>
    new InvalidJobError(
      `invalid job${named}: ${faultText(fault)}. Nothing was enqueued.`,
      index === undefined ? fault : { index, ...fault },
      options,
    );
}

function optionFields(job: JobOptions, path: string, refuse: Refuse): Record<string, unknown> {
  const at = (name: keyof JobOptions): string => (path === "" ? name : `${path}.${name}`);
  const given = <T>(name: keyof JobOptions, check: (value: unknown, path: string) => T): T | undefined =>
    job[name] === undefined ? undefined : check(job[name], at(name));
  if (job.runAt !== undefined && job.delayMs !== undefined) {
    throw refuse({ path: at("delayMs"), got: "given beside runAt", accepted: "one of the two" });
  }
  return {
    queue: given("queue", (value, place) => checkName(value, place, refuse)),
    concurrencyKey: given("concurrencyKey", (value, place) =>
      value === null ? null : checkName(value, place, refuse),
    ),
    priority: given("priority", (value, place) => checkInteger(value, bounds.priority, place, refuse)),
    runAt: given("runAt", (value, place) => checkTime(value, place, refuse)),
    delayMs: given("delayMs", (value, place) => checkInteger(value, bounds.delayMs, place, refuse)),
    maxAttempts: given("maxAttempts", (value, place) => checkInteger(value, bounds.maxAttempts, place, refuse)),
    retryPolicy: given("retryPolicy", (value, place) => checkRetryPolicy(value, place, refuse)),
  };
}

function checkTime(value: unknown, path: string, refuse: Refuse): string {
  const year = value instanceof Date ? value.getUTCFullYear() : Number.NaN;
  if (!(value instanceof Date) || !(year >= 1 && year <= 9999)) {
    const got = value instanceof Date ? "an invalid Date, or one outside of the years 1 to 9999" : shown(value);
    throw refuse({ path, got, accepted: "a Date in the years 1 to 9999" });
  }
  return value.toISOString();
}

/** The fields of each kind, and what each may be. */
const retryPolicyFields = {
  fixed: { delayMs: bounds.delayMs },
  exponential: { initialDelayMs: bounds.delayMs, multiplier: bounds.retryMultiplier, maxDelayMs: bounds.delayMs },
  "decorrelated-jitter": { baseDelayMs: bounds.delayMs, maxDelayMs: bounds.delayMs },
} as const satisfies Record<RetryPolicy["kind"], Record<string, Bound>>;

function checkRetryPolicy(value: unknown, path: string, refuse: Refuse): unknown {
  const kind = (value as { kind?: unknown } | null)?.kind;
  if (typeof value !== "object" || Array.isArray(value) || typeof kind !== "string" || !isKind(kind)) {
    throw refuse({
      path: typeof value === "object" && value !== null ? `${path}.kind` : path,
      got: typeof value === "object" && value !== null ? shown(kind) : shown(value),
      accepted: `an object whose kind is ${Object.keys(retryPolicyFields).join(", ")}`,
    });
  }
  const fields: Readonly<Record<string, Bound>> = retryPolicyFields[kind];
  checkKeys<Record<string, unknown>>(value, ["kind", ...Object.keys(fields)], path, refuse);
  const policy: Record<string, unknown> = { kind };
  for (const [name, bound] of Object.entries(fields)) {
    const check = name === "multiplier" ? checkNumber : checkInteger;
    policy[name] = check((value as Record<string, unknown>)[name], bound, `${path}.${name}`, refuse);
  }
  return policy;
}

function isKind(kind: string): kind is RetryPolicy["kind"] {
  return Object.hasOwn(retryPolicyFields, kind);
}
