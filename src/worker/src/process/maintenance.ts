import type { Queue } from "@workhorse/queue";
import type { Logger } from "../logger";
import { Outage } from "../outage";
import { jittered, Sleeper } from "../timing";

/** Jobs or rows of one step, and steps of one round at most: a round is bounded, the rest waits for the next one. */
const recoverLimit = 100;
const promoteLimit = 1_000;
const sweepLimit = 1_000;
const mostSteps = 20;
/** Cleaning up is not urgent: once in so many rounds. */
const roundsPerSweep = 20;

/** Recovers expired leases, promotes scheduled jobs that are due, cleans up: for all queues, in bounded steps. */
export class Maintenance {
  readonly #sleeper = new Sleeper();
  readonly #outage: Outage;
  #stopping = false;
  #running: Promise<void> | undefined;

  constructor(
    private readonly queue: Queue,
    private readonly intervalMs: number,
    private readonly logger: Logger,
  ) {
    this.#outage = new Outage("maintenance rounds", logger);
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Resolves after the step under way. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#sleeper.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    // Soon after the start, for what a crash left behind; not all processes of a deployment at once.
    await this.#sleeper.sleep((Math.random() * this.intervalMs) / 10);
    for (let round = 0; !this.#stopping; round++) {
      try {
        await this.#recover();
        await this.#repeat(promoteLimit, () => this.queue.promote(promoteLimit));
        if (round % roundsPerSweep === 0) await this.#repeat(sweepLimit, () => this.queue.sweep(sweepLimit));
        this.#outage.succeeded();
      } catch (error) {
        this.#outage.failed(error);
      }
      if (!this.#stopping) await this.#sleeper.sleep(jittered(this.intervalMs));
    }
  }

  async #recover(): Promise<void> {
    let recovered = 0;
    await this.#repeat(recoverLimit, async () => {
      const jobs = await this.queue.recoverExpired(recoverLimit);
      recovered += jobs.length;
      return jobs.length;
    });
    if (recovered > 0) this.logger.info("jobs whose lease had expired were brought back", { jobs: recovered });
  }

  async #repeat(limit: number, step: () => Promise<number>): Promise<void> {
    for (let steps = 0; steps < mostSteps && !this.#stopping; steps++) {
      if ((await step()) < limit) return;
    }
  }
}
