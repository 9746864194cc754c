import { bounds, type ClaimedJob, type Queue } from "@workhorse/queue";
import type { Logger } from "../logger";
import { Outage } from "../outage";
import { monotonicNow, retryDelay, Sleeper } from "../timing";
import type { QueueTurn, QueueTurns } from "./queue-turns";

/** What the loop works with. */
export interface ClaimLoopParts {
  readonly queue: Queue;
  readonly turns: QueueTurns;
  readonly logger: Logger;
  readonly workerId: string;
  readonly leaseMs: number;
  /** Slots that are free right now. */
  readonly freeSlots: () => number;
  /** Starts a job's handler. `claimedAt`: when the claim was sent, on the monotonic clock. */
  readonly start: (job: ClaimedJob, claimedAt: number) => void;
}

/**
 * Claims jobs for the free slots, and for no more: a start is the claim, so what is claimed must start at once. It sleeps
 * while no slot is free, and otherwise until a queue is due.
 */
export class ClaimLoop {
  readonly #sleeper = new Sleeper();
  readonly #outage: Outage;
  #stopping = false;
  /** After a failure, claims rest until then. */
  #restUntil = Number.NEGATIVE_INFINITY;

  constructor(private readonly parts: ClaimLoopParts) {
    this.#outage = new Outage("claims", parts.logger);
  }

  /** Resolves after `stop` was called and the claim under way, if any, was answered. */
  async run(): Promise<void> {
    while (!this.#stopping) {
      const now = monotonicNow();
      const free = this.parts.freeSlots();
      const next = free > 0 && now >= this.#restUntil ? this.parts.turns.next(now) : undefined;
      if (next !== undefined) {
        // When several queues are due, the first must not take what the others could have had a share of.
        await this.#claim(next.turn, Math.min(Math.ceil(free / next.due), bounds.claimedJobs.max));
      } else {
        const wakeAt = free > 0 ? Math.max(this.parts.turns.nextDueAt(), this.#restUntil) : Number.POSITIVE_INFINITY;
        await this.#sleeper.sleep(wakeAt - now);
      }
    }
  }

  /** Look again: a slot was freed, or something was notified. */
  wake(): void {
    this.#sleeper.wake();
  }

  /** Claim again at once, also after a failure: the database was just heard from. */
  endRest(): void {
    this.#restUntil = Number.NEGATIVE_INFINITY;
    this.wake();
  }

  stop(): void {
    this.#stopping = true;
    this.wake();
  }

  async #claim(turn: QueueTurn, maxJobs: number): Promise<void> {
    const { queue, turns, workerId, leaseMs } = this.parts;
    turns.begin(turn);
    const claimedAt = monotonicNow();
    const claim = await queue.claim({ queue: turn.name, workerId, maxJobs, leaseMs }).catch((error: unknown) => {
      this.#outage.failed(error, { queue: turn.name });
      this.#restUntil = monotonicNow() + retryDelay(this.#outage.failures);
    });
    if (claim === undefined) return;
    this.#outage.succeeded();
    for (const job of claim.jobs) this.parts.start(job, claimedAt);
    turns.answered(turn, claim, monotonicNow());
  }
}
