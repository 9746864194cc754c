/** How fast a token bucket fills, and how much it holds. */
export interface Rate {
  /** Starts per interval. An integer, 1 to 1,000,000. */
  readonly limit: number;
  /** The interval in milliseconds. An integer, 1 to 86,400,000 (a day). */
  readonly intervalMs: number;
  /** Starts that an idle time saves up at most. An integer, 1 to 1,000,000. */
  readonly burst: number;
}

/** How fast jobs of a queue may start. */
export interface RateLimitPolicyDefinition {
  /** 1 to 256 bytes. */
  readonly queue: string;
  /** The bucket that all jobs of the queue draw from. */
  readonly rate: Rate;
  /** A bucket of its own for every concurrency key, besides the queue's. Default: null, none. */
  readonly perKey?: Rate | null | undefined;
}

/** A rate-limit policy as PostgreSQL holds it. */
export interface RateLimitPolicy {
  readonly namespace: string;
  readonly queue: string;
  readonly rate: Rate;
  readonly perKey: Rate | null;
  /** When a value last changed, by PostgreSQL's clock. */
  readonly updatedAt: Date;
}

/** How many jobs of a queue may be active at once. */
export interface ConcurrencyPolicyDefinition {
  /** 1 to 256 bytes. */
  readonly queue: string;
  /** An integer, 1 to 1,000,000. */
  readonly maxActive: number;
  /** The same within one concurrency key. An integer, 1 to maxActive. Default: null, no cap per key. */
  readonly maxActivePerKey?: number | null | undefined;
}

/** A concurrency policy as PostgreSQL holds it. */
export interface ConcurrencyPolicy {
  readonly namespace: string;
  readonly queue: string;
  readonly maxActive: number;
  readonly maxActivePerKey: number | null;
  /** When a value last changed, by PostgreSQL's clock. */
  readonly updatedAt: Date;
}
