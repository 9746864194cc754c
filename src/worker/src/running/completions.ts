import { type ClaimedJob, LeaseLostError, type Queue } from "@workhorse/queue";

interface Waiting {
  readonly job: ClaimedJob;
  readonly result: unknown;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** What one statement holds at most, so that slots become free, and are filled again, while others are on their way. */
const largestBatch = 200;
/** Statements under way at most. */
const mostSending = 2;

/**
 * Completes jobs, those that are done at the same time in one statement. While one is under way the next ones gather, so a
 * busy worker commits once for many jobs, and an idle one waits for nothing.
 */
export class Completions {
  #waiting: Waiting[] = [];
  #sending = 0;

  constructor(private readonly queue: Queue) {}

  /** Rejects as `queue.complete` does. */
  complete(job: ClaimedJob, result: unknown): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ job, result, resolve, reject });
      if (this.#sending > 0) return;
      this.#sending = 1;
      // Handlers that end in the same turn of the event loop go together.
      setImmediate(() => void this.#send());
    });
  }

  async #send(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, largestBatch);
      if (this.#waiting.length > 0 && this.#sending < mostSending) {
        this.#sending += 1;
        void this.#send();
      }
      if (batch.length === 1) await this.#one(batch[0]!);
      else await this.#many(batch);
    }
    this.#sending -= 1;
  }

  async #one({ job, result, resolve, reject }: Waiting): Promise<void> {
    await this.queue.complete(job, result).then(resolve, reject);
  }

  async #many(batch: readonly Waiting[]): Promise<void> {
    try {
      const lost = new Set(await this.queue.completeMany(batch.map(({ job, result }) => ({ job, result }))));
      for (const { job, resolve, reject } of batch) {
        if (lost.has(job.id)) reject(new LeaseLostError(job.id, `the lease of job ${job.id} is lost.`));
        else resolve();
      }
    } catch {
      // Whose fault it was, if any one's, shows when each goes by itself; the answer may also have been lost on its way.
      await Promise.all(batch.map((each) => this.#one(each)));
    }
  }
}
