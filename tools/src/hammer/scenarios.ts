import type { ConcurrencyPolicyDefinition, RateLimitPolicyDefinition } from "@workhorse/queue";

/** What a queue is held to while it is hammered. */
export interface Scenario {
  readonly name: string;
  readonly rate?: Omit<RateLimitPolicyDefinition, "queue">;
  readonly caps?: Omit<ConcurrencyPolicyDefinition, "queue">;
  /** How many keys the jobs have. */
  readonly keys: number;
  /** Whether each fifth job has none. Without a limit of the queue's own, they would take all that the workers can do. */
  readonly keyless: boolean;
  /** How long a job is held at most, in milliseconds. */
  readonly holdMs: number;
}

const aSecond = 1_000;

/** Bursts are small beside what starts in the time, so that a token too many shows. */
export const scenarios: readonly Scenario[] = [
  {
    name: "queue bucket",
    rate: { rate: { limit: 300, intervalMs: aSecond, burst: 20 } },
    keys: 5,
    keyless: true,
    holdMs: 3,
  },
  {
    name: "per-key buckets",
    rate: {
      rate: { limit: 1_000_000, intervalMs: aSecond, burst: 1_000_000 },
      perKey: { limit: 20, intervalMs: aSecond, burst: 2 },
    },
    keys: 12,
    keyless: false,
    holdMs: 3,
  },
  { name: "maxActive", caps: { maxActive: 7 }, keys: 3, keyless: true, holdMs: 8 },
  { name: "maxActivePerKey", caps: { maxActive: 1_000, maxActivePerKey: 2 }, keys: 6, keyless: true, holdMs: 8 },
  {
    name: "all together",
    rate: {
      rate: { limit: 200, intervalMs: aSecond, burst: 10 },
      perKey: { limit: 30, intervalMs: aSecond, burst: 3 },
    },
    caps: { maxActive: 6, maxActivePerKey: 2 },
    keys: 8,
    keyless: true,
    holdMs: 5,
  },
];
