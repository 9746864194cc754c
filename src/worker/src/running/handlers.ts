import type { ClaimedJob, Queue } from "@workhorse/queue";
import type { Logger } from "../logger";
import { checkHandler, refuseCall } from "../options";

/** The payload of each job type, by the type's name. */
export type PayloadMap = Record<string, unknown>;

/** What a handler gets beside its job. */
export interface JobContext {
  /**
   * Aborted when the job's lease is lost (the reason is a `LeaseLostError`: another worker may have the job now) or when the
   * worker stops (a `WorkerStoppingError`). Hand it on to whatever takes time.
   */
  readonly signal: AbortSignal;
  readonly workerId: string;
  /** The worker's own client, for example to enqueue more jobs. */
  readonly queue: Queue;
  readonly logger: Logger;
}

/**
 * Runs one job. What it returns is kept as the job's result and must be something that JSON can hold; what it throws fails the
 * attempt. It may run more than once for a job (at least once), so it should be idempotent.
 */
export type Handler<Payload = unknown> = (job: ClaimedJob<Payload>, context: JobContext) => unknown;

/** Handlers by job type. */
export class Handlers {
  readonly #handlers = new Map<string, Handler>();

  get size(): number {
    return this.#handlers.size;
  }

  /** @throws InvalidArgumentError when the type already has a handler. */
  add(type: string, handler: Handler): void {
    checkHandler(type, handler);
    if (this.#handlers.has(type)) throw refuseCall("handle", `the type ${JSON.stringify(type)} already has a handler`);
    this.#handlers.set(type, handler);
  }

  find(type: string): Handler | undefined {
    return this.#handlers.get(type);
  }
}
