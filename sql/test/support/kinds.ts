import type { Executor } from "./calls";
import { syncCaps, syncRateLimits } from "./calls";

/** What the two kinds of policies have in common, so that one contract is tested on both. */
export interface PolicyKind {
  readonly name: string;
  readonly table: string;
  /** Name of the advisory lock on which synchronisers take turns. */
  readonly lock: string;
  readonly sync: (
    executor: Executor,
    namespace: string | null,
    definitions: unknown,
    prune?: boolean | null,
  ) => Promise<Record<string, unknown>[]>;
  /** A definition; another number is another value. */
  readonly define: (queue: string, number?: number) => Record<string, unknown>;
  /** The row of that definition, without updated_at. */
  readonly row: (namespace: string, queue: string, number?: number) => Record<string, unknown>;
}

export const rateLimitKind: PolicyKind = {
  name: "rate-limit",
  table: "workhorse.rate_limit_policy",
  lock: "workhorse:rate-limit-policies",
  sync: syncRateLimits,
  define: (queue, number = 1) => ({ queue, rate: { limit: number, intervalMs: 1000, burst: 10 } }),
  row: (namespace, queue, number = 1) => ({
    queue_name: queue,
    namespace,
    rate_limit: number,
    rate_interval_ms: 1000,
    rate_burst: 10,
    per_key_limit: null,
    per_key_interval_ms: null,
    per_key_burst: null,
  }),
};

export const capKind: PolicyKind = {
  name: "concurrency",
  table: "workhorse.concurrency_policy",
  lock: "workhorse:concurrency-policies",
  sync: syncCaps,
  define: (queue, number = 1) => ({ queue, maxActive: number }),
  row: (namespace, queue, number = 1) => ({
    queue_name: queue,
    namespace,
    max_active: number,
    max_active_per_key: null,
  }),
};

export const kinds = [rateLimitKind, capKind];
