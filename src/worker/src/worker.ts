import type { ClaimedJob } from "@workhorse/queue";
import { ClaimLoop } from "./claiming/claim-loop";
import { QueueTurns } from "./claiming/queue-turns";
import { WorkerCrashedError } from "./errors";
import type { WorkerOptions, WorkerProcessOptions } from "./options";
import { type CompleteWorkerOptions, checkWorkerOptions, processOptionNames, refuseCall } from "./options";
import type { WorkerPool } from "./pool";
import { WorkerProcess } from "./process/worker-process";
import { type Handler, Handlers, type PayloadMap } from "./running/handlers";
import { JobRuns } from "./running/job-runs";
import { LeaseKeeper } from "./running/lease-keeper";
import type { JobEnd } from "./running/outcome";
import { type StopReport, stopInStages, type WorkerState } from "./stopping";
import { settlesWithin } from "./timing";

/** What closing the shared connection may take before it is left to itself. */
const closeMs = 5_000;

/** Options of `run`. */
export interface RunOptions {
  /** Stops the worker when aborted. Connect it to SIGTERM and SIGINT yourself: the library handles no signals. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs the jobs of some queues: claims for its free slots, starts each handler at once, keeps the leases by heartbeats, and
 * completes or fails. While the queues are throttled or empty it sleeps until PostgreSQL says that something can start.
 *
 * A worker outlives every trouble of the database: it says so once, tries again, and loses no job. A job may run more than
 * once, never at the same time as long as its handler heeds the signal.
 *
 * ```ts
 * const worker = new Worker<{ "invoice.send": { invoice: number } }>(pool, { queues: ["mail"], concurrency: 20 });
 * worker.handle("invoice.send", async (job, { signal }) => send(job.payload.invoice, signal));
 * const report = await worker.run({ signal });
 * ```
 */
export class Worker<Payloads extends PayloadMap = PayloadMap> {
  readonly #process: WorkerProcess;
  readonly #options: CompleteWorkerOptions;
  readonly #handlers = new Handlers();
  readonly #ended: Record<JobEnd, number> = {
    completed: 0,
    retried: 0,
    failed: 0,
    released: 0,
    leaseLost: 0,
    abandoned: 0,
  };
  readonly #turns: QueueTurns;
  readonly #leases: LeaseKeeper;
  readonly #runs: JobRuns;
  readonly #loop: ClaimLoop;
  #state: WorkerState = "idle";
  #crash: WorkerCrashedError | undefined;
  #looping: Promise<void> = Promise.resolve();
  #detach: () => Promise<void> = () => Promise.resolve();
  #report: Promise<StopReport> | undefined;
  /** Resolved by the first stop; what `run` waits for. */
  #stopRequested: (report: Promise<StopReport>) => void = () => {};

  /**
   * @param pool a pg `Pool`, or a `WorkerProcess` that several workers share (then its options are set there).
   * @throws InvalidArgumentError
   */
  constructor(pool: WorkerPool, options: WorkerOptions & WorkerProcessOptions);
  constructor(process: WorkerProcess, options: WorkerOptions);
  constructor(pool: WorkerPool | WorkerProcess, options: WorkerOptions & WorkerProcessOptions) {
    const shared = pool instanceof WorkerProcess;
    this.#options = checkWorkerOptions(options, shared ? [] : processOptionNames);
    const { logger, listen, maintenanceIntervalMs } = options;
    this.#process = shared ? pool : new WorkerProcess(pool, { logger, listen, maintenanceIntervalMs });

    const { queues, workerId, leaseMs, concurrency, fallbackPollMs, pollMs } = this.#options;
    const parts = { queue: this.#process.queue, logger: this.#process.logger, workerId };
    this.#turns = new QueueTurns(queues, () => (this.#process.listening ? fallbackPollMs : pollMs));
    this.#leases = new LeaseKeeper(this.#process.queue, leaseMs, this.#process.logger);
    this.#runs = new JobRuns({
      ...parts,
      handlers: this.#handlers,
      leases: this.#leases,
      onEnd: (end) => {
        this.#ended[end]++;
        this.#loop.wake();
      },
      onCrash: (error) => this.#crashed(error),
    });
    this.#loop = new ClaimLoop({
      ...parts,
      turns: this.#turns,
      leaseMs,
      freeSlots: () => concurrency - this.#runs.size,
      start: (job, claimedAt) => this.#start(job, claimedAt),
    });
  }

  /** Where the worker is in its life. */
  get state(): WorkerState {
    return this.#state;
  }

  /** Who claims: shown to operators. */
  get workerId(): string {
    return this.#options.workerId;
  }

  /** Jobs that are in a slot right now. */
  get activeJobs(): number {
    return this.#runs.size;
  }

  /**
   * Sets the handler of a job type. Jobs of other types are released to other workers.
   *
   * @throws InvalidArgumentError when the type already has one.
   */
  handle<Type extends keyof Payloads & string>(type: Type, handler: Handler<Payloads[Type]>): this {
    this.#handlers.add(type, handler as Handler);
    return this;
  }

  /**
   * Works until it is stopped, by the signal or by `stop`. Resolves with the report.
   *
   * @throws InvalidArgumentError when it has run before or has no handler.
   * @throws WorkerCrashedError after an error in the worker's own code; it has stopped in the same stages then.
   */
  async run({ signal }: RunOptions = {}): Promise<StopReport> {
    if (this.#state !== "idle") {
      throw refuseCall("run", `the worker is ${this.#state}; a worker runs once, make another one`);
    }
    if (this.#handlers.size === 0)
      throw refuseCall("run", "the worker has no handler; set one with handle(type, handler)");
    this.#state = "running";
    const requested = new Promise<StopReport>((resolve) => {
      this.#stopRequested = resolve;
    });
    this.#detach = this.#process.attach({
      notified: (queue) => {
        if (this.#turns.notify(queue)) this.#loop.wake();
      },
      listeningChanged: () => {
        // Something may have been missed, or the time until the next poll has become shorter.
        this.#turns.notifyAll();
        this.#loop.endRest();
      },
    });
    this.#looping = this.#loop.run();
    this.#looping.catch((error: unknown) => this.#crashed(error));
    const stop = (): void => void this.stop();
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    try {
      const report = await requested;
      if (this.#crash !== undefined) throw this.#crash;
      return report;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  /**
   * Stops in stages: claims nothing more, waits `graceMs` for the handlers, aborts their signals, waits `abortGraceMs`, reports
   * what was left. Further calls return the same report. A worker that does not run is stopped at once.
   */
  stop(): Promise<StopReport> {
    if (this.#report === undefined) {
      this.#report = this.#stop();
      this.#stopRequested(this.#report);
    }
    return this.#report;
  }

  async #stop(): Promise<StopReport> {
    const { graceMs, abortGraceMs } = this.#options;
    const report = await stopInStages({
      loop: this.#loop,
      looping: this.#looping,
      runs: this.#runs,
      logger: this.#process.logger,
      graceMs,
      abortGraceMs,
      enter: (stage) => {
        this.#state = stage;
      },
    });
    this.#runs.abandon();
    this.#leases.stop();
    await settlesWithin(this.#detach(), closeMs);
    this.#state = "stopped";
    return { ...report, ended: { ...this.#ended } };
  }

  #start(job: ClaimedJob, claimedAt: number): void {
    if (this.#state !== "stopped") {
      this.#runs.start(job, claimedAt);
      return;
    }
    // The answer to a claim that hung until after the end: nobody is left to run it.
    this.#process.queue.release(job, { delayMs: 0 }).catch((error: unknown) => {
      this.#process.logger.warn("a job came too late and could not be given back", { job: job.id, error });
    });
  }

  #crashed(error: unknown): void {
    this.#crash ??= new WorkerCrashedError(error);
    this.#process.logger.error("the worker stops because of an error in its own code", { error });
    void this.stop();
  }
}
