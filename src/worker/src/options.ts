import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { bounds, InvalidArgumentError, validation } from "@workhorse/queue";
import { consoleLogger, type Logger, protectedLogger } from "./logger";

const { checkBoolean, checkInteger, checkName, refuseArgument, shown } = validation;

/** Options of what a process's workers share. */
export interface WorkerProcessOptions {
  /** Default: warnings and errors to standard error. */
  readonly logger?: Logger | undefined;
  /** Whether to wait for notifications on a connection of its own. Default: true. False: polling only. */
  readonly listen?: boolean | undefined;
  /** How often expired leases are recovered, in milliseconds (jittered): an integer, 100 to 3,600,000. Default: 30,000. */
  readonly maintenanceIntervalMs?: number | undefined;
}

/** Options of a worker. */
export interface WorkerOptions {
  /** The queues to claim from, each once; they take turns. */
  readonly queues: readonly string[];
  /** Jobs that run at once: an integer, 1 to 10,000. Default: 10. */
  readonly concurrency?: number | undefined;
  /** Shown to operators, 1 to 256 bytes. Default: host, process id and a random part. */
  readonly workerId?: string | undefined;
  /** How long a job is held without a heartbeat, in milliseconds: an integer, 100 to 86,400,000. Default: 30,000. */
  readonly leaseMs?: number | undefined;
  /** The longest time between two claims while notifications come, in milliseconds (jittered). Default: 60,000. */
  readonly fallbackPollMs?: number | undefined;
  /** The longest time between two claims while no notifications come, in milliseconds (jittered). Default: 1,000. */
  readonly pollMs?: number | undefined;
  /** When stopping: how long handlers may go on undisturbed, in milliseconds: 0 to 86,400,000. Default: 30,000. */
  readonly graceMs?: number | undefined;
  /** When stopping: how long handlers may take after their signal was aborted, in milliseconds. Default: 5,000. */
  readonly abortGraceMs?: number | undefined;
}

export type CompleteProcessOptions = {
  readonly [K in keyof WorkerProcessOptions]-?: NonNullable<WorkerProcessOptions[K]>;
};
export type CompleteWorkerOptions = { readonly [K in keyof WorkerOptions]-?: NonNullable<WorkerOptions[K]> };

const maintenanceBound = { min: 100, max: 3_600_000 };
const pollBound = { min: 10, max: 86_400_000 };
const graceBound = { min: 0, max: 86_400_000 };
const concurrencyBound = { min: 1, max: 10_000 };

export const processOptionNames = ["logger", "listen", "maintenanceIntervalMs"] as const;
const workerOptionNames = [
  "queues",
  "concurrency",
  "workerId",
  "leaseMs",
  "fallbackPollMs",
  "pollMs",
  "graceMs",
  "abortGraceMs",
] as const;

/** Checks the options of a process and fills in the defaults. Throws InvalidArgumentError. */
export function checkProcessOptions(options: WorkerProcessOptions, method: string): CompleteProcessOptions {
  const refuse = refuseArgument(method);
  validation.checkKeys<WorkerProcessOptions>(options, processOptionNames, "options", refuse);
  const { logger = consoleLogger, listen = true, maintenanceIntervalMs = 30_000 } = options as WorkerProcessOptions;
  for (const level of ["debug", "info", "warn", "error"] as const) {
    if (typeof (logger as Partial<Logger> | null)?.[level] !== "function") {
      throw refuse({ path: `options.logger.${level}`, got: shown(logger?.[level]), accepted: "a function" });
    }
  }
  return {
    logger: protectedLogger(logger),
    listen: checkBoolean(listen, "options.listen", refuse),
    maintenanceIntervalMs: checkInteger(
      maintenanceIntervalMs,
      maintenanceBound,
      "options.maintenanceIntervalMs",
      refuse,
    ),
  };
}

/** Checks the options of a worker and fills in the defaults. Throws InvalidArgumentError. */
export function checkWorkerOptions(options: WorkerOptions, alsoKnown: readonly string[]): CompleteWorkerOptions {
  const refuse = refuseArgument("new Worker(pool, options)");
  validation.checkKeys<Record<string, unknown>>(options, [...workerOptionNames, ...alsoKnown], "options", refuse);
  const given = options as WorkerOptions;
  const integer = (name: keyof WorkerOptions, bound: { min: number; max: number }, byDefault: number): number =>
    checkInteger(given[name] === undefined ? byDefault : given[name], bound, `options.${name}`, refuse);
  return {
    queues: checkQueues(given.queues),
    concurrency: integer("concurrency", concurrencyBound, 10),
    workerId: checkName(given.workerId ?? makeWorkerId(), "options.workerId", refuse),
    leaseMs: integer("leaseMs", bounds.leaseMs, 30_000),
    fallbackPollMs: integer("fallbackPollMs", pollBound, 60_000),
    pollMs: integer("pollMs", pollBound, 1_000),
    graceMs: integer("graceMs", graceBound, 30_000),
    abortGraceMs: integer("abortGraceMs", graceBound, 5_000),
  };
}

function checkQueues(queues: unknown): string[] {
  const refuse = refuseArgument("new Worker(pool, options)");
  if (!Array.isArray(queues) || queues.length === 0) {
    const got = Array.isArray(queues) ? "empty" : shown(queues);
    throw refuse({ path: "options.queues", got, accepted: "an array of at least one queue's name" });
  }
  const names = Array.from(queues, (queue, index) => checkName(queue, `options.queues[${index}]`, refuse));
  for (const [index, name] of names.entries()) {
    if (names.indexOf(name) === index) continue;
    throw refuse({ path: `options.queues[${index}]`, got: `${shown(name)} again`, accepted: "each queue once" });
  }
  return names;
}

/** Checks a job type and its handler. Throws InvalidArgumentError. */
export function checkHandler(type: unknown, handler: unknown): void {
  const refuse = refuseArgument("handle");
  checkName(type, "type", refuse);
  if (typeof handler !== "function") throw refuse({ path: "handler", got: shown(handler), accepted: "a function" });
}

/** For a call that is fine but comes at the wrong time. */
export function refuseCall(method: string, problem: string): InvalidArgumentError {
  return new InvalidArgumentError(`invalid call of ${method}: ${problem}.`, {});
}

function makeWorkerId(): string {
  return `${hostname().slice(0, 64)}:${process.pid}:${randomBytes(4).toString("hex")}`;
}
