import { type ClaimedJob, LeaseLostError, type Queue } from "@workhorse/queue";
import type { Logger } from "../logger";
import { Outage } from "../outage";
import { monotonicNow, startTimer } from "../timing";

/** A job that is held. */
export interface HeldLease {
  /** Set once the lease is known, or must be taken, to be lost. */
  readonly lost: LeaseLostError | undefined;
  /** The handler is done and the job about to be moved: the move itself will tell whether the lease was still held. */
  settle(): void;
  /** Stops the heartbeats. */
  drop(): void;
}

class Held implements HeldLease {
  lost: LeaseLostError | undefined;
  settling = false;

  constructor(
    readonly job: ClaimedJob,
    /** Until then the lease certainly has not expired, on the monotonic clock. */
    public safeUntil: number,
    readonly onLost: (error: LeaseLostError) => void,
    private readonly onDrop: (held: Held) => void,
  ) {}

  settle(): void {
    this.settling = true;
  }

  drop(): void {
    this.onDrop(this);
  }

  lose(why: string, cause?: unknown): void {
    if (this.lost !== undefined || this.settling) return;
    this.lost = new LeaseLostError(this.job.id, `the lease of job ${this.job.id} is lost: ${why}.`, { cause });
    this.onLost(this.lost);
  }
}

/**
 * Heartbeats for the jobs of one worker: one statement for all, every third of a lease. It needs no clock but the monotonic
 * one: a lease that was asked for at t and lasts d has not expired before t + d, wherever the database's clock stands.
 */
export class LeaseKeeper {
  readonly #held = new Set<Held>();
  readonly #outage: Outage;
  #timer: NodeJS.Timeout | undefined;
  #beating = false;
  #stopped = false;

  constructor(
    private readonly queue: Queue,
    private readonly leaseMs: number,
    logger: Logger,
  ) {
    this.#outage = new Outage("heartbeats", logger);
  }

  /** @param claimedAt when the claim was sent, on the monotonic clock. */
  hold(job: ClaimedJob, claimedAt: number, onLost: (error: LeaseLostError) => void): HeldLease {
    for (const other of this.#held) {
      if (other.job.id === job.id) other.lose("it was started again by this very worker");
    }
    const held = new Held(job, claimedAt + this.leaseMs, onLost, (each) => this.#drop(each));
    this.#held.add(held);
    if (this.#timer === undefined && !this.#stopped) this.#schedule(this.leaseMs / 3);
    return held;
  }

  /** No heartbeats from now on: what is still held expires. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #drop(held: Held): void {
    this.#held.delete(held);
    if (this.#held.size > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #schedule(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = startTimer(ms, () => this.#tick());
  }

  #tick(): void {
    const now = monotonicNow();
    for (const held of this.#held) {
      if (held.safeUntil <= now) held.lose("no heartbeat got through in time, so that it may have expired");
    }
    if (!this.#beating) void this.#beat();
    this.#schedule(Math.min(this.leaseMs / 3, this.#msToExpiry(now)));
  }

  #msToExpiry(now: number): number {
    const open = [...this.#held].filter((held) => held.lost === undefined && !held.settling);
    return Math.max(1, Math.min(...open.map((held) => held.safeUntil - now)));
  }

  async #beat(): Promise<void> {
    const batch = [...this.#held].filter((held) => held.lost === undefined);
    if (batch.length === 0) return;
    this.#beating = true;
    const sentAt = monotonicNow();
    try {
      const jobs = batch.map((held) => held.job);
      const lost = new Set(await this.queue.heartbeat(jobs, this.leaseMs));
      this.#outage.succeeded();
      for (const held of batch) {
        if (lost.has(held.job.id)) held.lose("it expired, was cancelled, or is finished");
        else held.safeUntil = sentAt + this.leaseMs;
      }
    } catch (error) {
      this.#outage.failed(error);
      if (this.#timer !== undefined) this.#schedule(Math.min(this.leaseMs / 10, 1_000));
    } finally {
      this.#beating = false;
    }
  }
}
