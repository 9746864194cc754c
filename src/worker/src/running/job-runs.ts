import { setTimeout as delay } from "node:timers/promises";
import type { ClaimedJob, Queue } from "@workhorse/queue";
import { WorkerStoppingError } from "../errors";
import type { Logger } from "../logger";
import { Outage } from "../outage";
import { retryDelay } from "../timing";
import { Completions } from "./completions";
import type { Handlers } from "./handlers";
import type { HeldLease, LeaseKeeper } from "./lease-keeper";
import { afterRefusal, type JobEnd, type Outcome, settle } from "./outcome";

/** How long a job of a type without a handler is left to other workers. */
const unhandledDelayMs = 30_000;

/** What the runs work with. */
export interface JobRunParts {
  readonly queue: Queue;
  readonly handlers: Handlers;
  readonly leases: LeaseKeeper;
  readonly logger: Logger;
  readonly workerId: string;
  /** Called after a run ended: its slot is free. */
  readonly onEnd: (end: JobEnd) => void;
  /** Called when our own code fails. */
  readonly onCrash: (error: unknown) => void;
}

/** A job between its claim and its end. */
export interface JobRun {
  readonly job: ClaimedJob;
  /** Whether its handler is at work, or done and the job being moved. */
  readonly phase: "handler" | "settling";
}

interface Run extends JobRun {
  phase: JobRun["phase"];
  readonly controller: AbortController;
}

/** The jobs that a worker holds, each in a slot. */
export class JobRuns {
  readonly #runs = new Map<Run, Promise<void>>();
  readonly #outage: Outage;
  readonly #completions: Completions;
  readonly #unhandledTypes = new Set<string>();
  /** Aborted when the worker has stopped: moves that did not get through are given up, and the leases expire. */
  readonly #abandoning = new AbortController();

  constructor(private readonly parts: JobRunParts) {
    this.#outage = new Outage("completions", parts.logger);
    this.#completions = new Completions(parts.queue);
  }

  /** Slots taken. */
  get size(): number {
    return this.#runs.size;
  }

  current(): JobRun[] {
    return [...this.#runs.keys()];
  }

  /** Starts the job's handler at once. */
  start(job: ClaimedJob, claimedAt: number): void {
    const run: Run = { job, phase: "handler", controller: new AbortController() };
    const lease = this.parts.leases.hold(job, claimedAt, (error) => {
      this.parts.logger.warn("a job's lease is lost; its handler is told to stop", {
        job: job.id,
        type: job.type,
        error,
      });
      run.controller.abort(error);
    });
    const free = (): void => {
      lease.drop();
      this.#runs.delete(run);
    };
    const ended = this.#run(run, lease).then(
      (end) => {
        free();
        this.parts.onEnd(end);
      },
      (error: unknown) => {
        free();
        this.parts.onCrash(error);
      },
    );
    this.#runs.set(run, ended);
  }

  /** Resolves when none is left, whatever was started meanwhile. */
  async allEnded(): Promise<void> {
    while (this.#runs.size > 0) await Promise.all(this.#runs.values());
  }

  /** Tells the handlers to stop. What they throw then gives the job back. */
  abort(): void {
    for (const run of this.#runs.keys()) run.controller.abort(new WorkerStoppingError());
  }

  /** Gives up on moves that do not get through. */
  abandon(): void {
    this.#abandoning.abort();
  }

  async #run(run: Run, lease: HeldLease): Promise<JobEnd> {
    const outcome = await this.#handle(run);
    run.phase = "settling";
    if (lease.lost !== undefined) return this.#refused(run.job);
    lease.settle();
    return this.#settle(run.job, outcome);
  }

  async #handle({ job, controller }: Run): Promise<Outcome> {
    const { queue, handlers, logger, workerId } = this.parts;
    const handler = handlers.find(job.type);
    if (handler === undefined) {
      this.#sayUnhandled(job);
      return { kind: "release", delayMs: unhandledDelayMs };
    }
    try {
      return { kind: "complete", result: await handler(job, { signal: controller.signal, workerId, queue, logger }) };
    } catch (error) {
      const stopped = controller.signal.reason instanceof WorkerStoppingError;
      return stopped ? { kind: "release", delayMs: 0 } : { kind: "fail", error };
    }
  }

  async #settle(job: ClaimedJob, first: Outcome): Promise<JobEnd> {
    const parts = { ...this.parts, completions: this.#completions };
    const { signal } = this.#abandoning;
    let outcome = first;
    for (let failures = 1; ; failures++) {
      try {
        const end = await settle(parts, job, outcome);
        this.#outage.succeeded();
        return end;
      } catch (error) {
        const next = afterRefusal(error, outcome);
        if (next === "lost") return this.#refused(job);
        if (next !== "again") {
          outcome = next;
          continue;
        }
        this.#outage.failed(error);
      }
      try {
        await delay(retryDelay(failures), undefined, { signal });
      } catch {
        return "abandoned";
      }
    }
  }

  #refused(job: ClaimedJob): JobEnd {
    this.parts.logger.info("a late result is dropped: the job's lease is lost", { job: job.id, type: job.type });
    return "leaseLost";
  }

  #sayUnhandled({ type, queue }: ClaimedJob): void {
    if (this.#unhandledTypes.has(type) || this.#unhandledTypes.size >= 1_000) return;
    this.#unhandledTypes.add(type);
    this.parts.logger.warn("no handler for this job type; its jobs are released to other workers", { type, queue });
  }
}
