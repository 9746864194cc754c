/**
 * When a failed start is tried again. Delays are integers in milliseconds, 0 to 365 days.
 *
 * - `fixed`: always after delayMs.
 * - `exponential`: after initialDelayMs, then multiplier (1 to 100, fractions accepted) times as long each time, at most
 *   maxDelayMs.
 * - `decorrelated-jitter`: between baseDelayMs and three times the delay before, at most maxDelayMs; the same for the same
 *   job and attempt.
 */
export type RetryPolicy =
  | { readonly kind: "fixed"; readonly delayMs: number }
  | {
      readonly kind: "exponential";
      readonly initialDelayMs: number;
      readonly multiplier: number;
      readonly maxDelayMs: number;
    }
  | { readonly kind: "decorrelated-jitter"; readonly baseDelayMs: number; readonly maxDelayMs: number };

/** What a job may have besides its type and payload. */
export interface JobOptions {
  /** 1 to 256 bytes. Default: `default`. */
  readonly queue?: string | undefined;
  /** Groups jobs for limits per key, such as a customer's id: 1 to 256 bytes. Default: null, none. */
  readonly concurrencyKey?: string | null | undefined;
  /** Higher first. An integer, -32,768 to 32,767. Default: 0. */
  readonly priority?: number | undefined;
  /** Not before this time, by PostgreSQL's clock. Default: at once. A delay is safer: it needs no clock of the application. */
  readonly runAt?: Date | undefined;
  /** Not before this delay in milliseconds, 0 to 365 days. Instead of runAt. Default: at once. */
  readonly delayMs?: number | undefined;
  /** Starts that may fail before the job is failed for good. An integer, 1 to 1,000,000. Default: 25. */
  readonly maxAttempts?: number | undefined;
  /** Default: quickly rising delays, from 15 seconds to days. */
  readonly retryPolicy?: RetryPolicy | undefined;
}

/** A job to enqueue. */
export interface NewJob extends JobOptions {
  /** Which handler runs it: 1 to 256 bytes. */
  readonly type: string;
  /** Anything that JSON can hold. Default: null. */
  readonly payload?: unknown;
}

/** What moves a claimed job: its id and the number of the start. */
export interface Lease {
  /** The job's id, a 64-bit integer in decimal. */
  readonly id: string;
  /** The number of the start, a 64-bit integer in decimal: only the holder of the latest may move the job. */
  readonly fenceToken: string;
}

/** A started job, held under a lease. */
export interface ClaimedJob<Payload = unknown> extends Lease {
  readonly queue: string;
  readonly type: string;
  readonly payload: Payload;
  readonly concurrencyKey: string | null;
  readonly priority: number;
  /** Which attempt this is, from 1. A released start counts for none. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly createdAt: Date;
  readonly startedAt: Date;
  /** By PostgreSQL's clock, unless a heartbeat extends it. */
  readonly leaseExpiresAt: Date;
}

/**
 * Why a claim started fewer jobs than asked for: `tokens` (the queue's bucket is empty), `key_tokens` (so are the buckets of
 * the keys that wait), `slots` (maxActive is reached), `key_slots` (maxActivePerKey is, for the keys that wait), `backed_off`,
 * `empty` (nothing is ready).
 */
export type ClaimReason = "tokens" | "key_tokens" | "slots" | "key_slots" | "backed_off" | "empty";

/** What a claim started, and when to ask again. */
export interface Claim {
  /** In the order in which the jobs take their turn. */
  readonly jobs: ClaimedJob[];
  /** When a claim next starts something unless something happens before; null if only an event can help, or all were started. */
  readonly nextEligibleAt: Date | null;
  /** The same as a delay in milliseconds by PostgreSQL's clock, rounded up: sleep by this one. */
  readonly waitMs: number | null;
  /** Null when as many started as were asked for. */
  readonly reason: ClaimReason | null;
}

/** What became of a failed start. */
export interface FailOutcome {
  /** `ready` (again at once), `scheduled` (again after delayMs) or `failed` (for good). */
  readonly state: "ready" | "scheduled" | "failed";
  /** Null when failed for good. */
  readonly delayMs: number | null;
  /** Which rule chose: a kind of retry policy, `default`, `asked`, `given up`, `attempts used up`. */
  readonly rule: string;
}

/** A job that came back because its lease expired. */
export interface RecoveredJob {
  readonly id: string;
  readonly queue: string;
  readonly state: "ready" | "scheduled" | "failed";
}
