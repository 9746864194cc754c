import type { ClaimLoop } from "./claiming/claim-loop";
import type { Logger } from "./logger";
import type { JobRuns } from "./running/job-runs";
import type { JobEnd } from "./running/outcome";
import { monotonicNow, settlesWithin } from "./timing";

/**
 * Where a worker is in its life: `idle` (not yet run), `running`, `draining` (claims nothing more, waits for its handlers),
 * `aborting` (has told them to stop), `stopped`.
 */
export type WorkerState = "idle" | "running" | "draining" | "aborting" | "stopped";

/** A job whose handler did not end in time. Its lease expires, and then it is started again. */
export interface Leftover {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly attempt: number;
  /** `handler`: it is still at work. `settling`: it is done, but the database could not be told. */
  readonly phase: "handler" | "settling";
}

/** What a worker did, and how it ended. */
export interface StopReport {
  /** The last stage that was needed: `draining` when all handlers ended by themselves, `aborting` when they had to be told. */
  readonly stage: "draining" | "aborting";
  /** From the request to stop, in milliseconds. */
  readonly durationMs: number;
  /** How the jobs of this worker ended since it ran. */
  readonly ended: Readonly<Record<JobEnd, number>>;
  /** Jobs that were left: empty after a clean stop. */
  readonly leftovers: readonly Leftover[];
}

/** What is stopped. */
export interface StopParts {
  readonly loop: ClaimLoop;
  /** Settles when the loop has ended. */
  readonly looping: Promise<void>;
  readonly runs: JobRuns;
  readonly logger: Logger;
  readonly graceMs: number;
  readonly abortGraceMs: number;
  readonly enter: (stage: "draining" | "aborting") => void;
}

/** Stops in stages: claims nothing more; waits; tells the handlers to stop; waits; says what was left. */
export async function stopInStages(parts: StopParts): Promise<Omit<StopReport, "ended">> {
  const { loop, looping, runs, logger, graceMs, abortGraceMs, enter } = parts;
  const startedAt = monotonicNow();
  // The claim under way may still bring jobs: they are started, so they are run.
  const allEnded = looping.then(
    () => runs.allEnded(),
    () => runs.allEnded(),
  );
  let stage: StopReport["stage"] = "draining";
  enter(stage);
  loop.stop();
  if (!(await settlesWithin(allEnded, graceMs))) {
    stage = "aborting";
    enter(stage);
    logger.warn("handlers are told to stop: the time of grace is over", { jobs: runs.size, graceMs });
    runs.abort();
    await settlesWithin(allEnded, abortGraceMs);
  }
  const leftovers = runs.current().map(({ job, phase }) => ({
    id: job.id,
    type: job.type,
    queue: job.queue,
    attempt: job.attempt,
    phase,
  }));
  if (leftovers.length > 0) {
    logger.error("jobs are left behind; they start again when their leases have expired", { jobs: leftovers });
  }
  return { stage, durationMs: Math.round(monotonicNow() - startedAt), leftovers };
}
