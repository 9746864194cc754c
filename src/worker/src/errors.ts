import { WorkhorseError } from "@workhorse/queue";

/** The reason of a handler's signal when its worker stops and the time of grace is over. */
export class WorkerStoppingError extends WorkhorseError {
  override readonly name = "WorkerStoppingError";

  constructor() {
    super("STOPPING", "the worker stops; its jobs are given back to be started again");
  }
}

/** The worker came upon an error in its own code. It stopped as it does on request; `cause` is the error. */
export class WorkerCrashedError extends WorkhorseError {
  override readonly name = "WorkerCrashedError";

  constructor(cause: unknown) {
    super("CRASHED", `the worker stopped because of an error in its own code: ${String(cause)}`, { cause });
  }
}
