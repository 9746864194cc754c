/** An inclusive range of integers. */
export interface Bound {
  readonly min: number;
  readonly max: number;
}

/**
 * What is accepted, in one table: the TypeScript types, the Terraform schema and the constructs draw on it, and a test holds
 * the SQL functions equal to it.
 */
export const bounds = {
  /** Namespace, queue, job type, concurrency key: UTF-8 bytes. */
  nameBytes: { min: 1, max: 256 },
  /** Tokens added per interval. */
  rateLimit: { min: 1, max: 1_000_000 },
  /** Milliseconds. */
  rateIntervalMs: { min: 1, max: 86_400_000 },
  /** Tokens a bucket holds at most. */
  rateBurst: { min: 1, max: 1_000_000 },
  /** Jobs active at once in a queue. Its maxActivePerKey goes from 1 to maxActive. */
  maxActive: { min: 1, max: 1_000_000 },
  /** Definitions in one sync. */
  definitions: { min: 0, max: 10_000 },
  /** Jobs in one enqueue. */
  enqueuedJobs: { min: 0, max: 10_000 },
  /** Higher first. */
  priority: { min: -32_768, max: 32_767 },
  /** Starts that count, of one job. */
  maxAttempts: { min: 1, max: 1_000_000 },
  /** Jobs asked for by one claim. */
  claimedJobs: { min: 1, max: 1_000 },
  /** Milliseconds. */
  leaseMs: { min: 100, max: 86_400_000 },
  /** Milliseconds: retry delays, release delays, back-offs, delayed enqueues. 365 days. */
  delayMs: { min: 0, max: 31_536_000_000 },
  /** Factor of an exponential retry policy (fractions are accepted). */
  retryMultiplier: { min: 1, max: 100 },
} as const satisfies Record<string, Bound>;
