import { type ClaimedJob, InvalidJobError, LeaseLostError, type Queue } from "@workhorse/queue";
import type { Logger } from "../logger";
import type { Completions } from "./completions";

/** What is to become of a job whose handler is done. */
export type Outcome =
  | { readonly kind: "complete"; readonly result: unknown }
  | { readonly kind: "fail"; readonly error: unknown }
  | { readonly kind: "release"; readonly delayMs: number };

/** What became of it. */
export type JobEnd = "completed" | "retried" | "failed" | "released" | "leaseLost" | "abandoned";

/** Moves the job, once. Rejects when the database could not be asked or refused. */
export async function settle(
  { queue, completions, logger }: { queue: Queue; completions: Completions; logger: Logger },
  job: ClaimedJob,
  outcome: Outcome,
): Promise<JobEnd> {
  const fields = { job: job.id, type: job.type, queue: job.queue, attempt: job.attempt };
  switch (outcome.kind) {
    case "complete":
      await completions.complete(job, outcome.result);
      return "completed";
    case "fail": {
      const { error } = outcome;
      const { state, delayMs, rule } = await queue.fail(job, error);
      if (state === "failed") {
        logger.error("a job failed for good", { ...fields, rule, error });
        return "failed";
      }
      logger.warn("a job failed and will be tried again", { ...fields, delayMs, rule, error });
      return "retried";
    }
    case "release":
      await queue.release(job, { delayMs: outcome.delayMs });
      return "released";
  }
}

/**
 * What to do when a move was refused: nothing more (the job is someone else's), something else (the result cannot be stored,
 * and never will), or the same again.
 */
export function afterRefusal(error: unknown, outcome: Outcome): "lost" | Outcome | "again" {
  if (error instanceof LeaseLostError) return "lost";
  if (outcome.kind === "complete" && (error instanceof InvalidJobError || isDataError(error))) {
    return { kind: "fail", error };
  }
  return "again";
}

/** SQLSTATE classes 22 (data) and 54 (limits exceeded): trying the same again cannot help. */
function isDataError(error: unknown): boolean {
  return error instanceof Error && /^(22|54)[0-9A-Z]{3}$/.test(String((error as { code?: unknown }).code));
}
