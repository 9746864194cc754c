import type { Executor } from "../executor";
import { column, type Row } from "../rows";
import type { Rate, RateLimitPolicy, RateLimitPolicyDefinition } from "./definitions";
import {
  checkSyncOptions,
  type ListPoliciesOptions,
  listPolicies,
  rateLimitSource,
  type SyncOptions,
  syncPolicies,
} from "./sync";
import { validateRateLimitDefinitions } from "./validate";

export async function syncRateLimitPolicies(
  executor: Executor,
  namespace: string,
  definitions: readonly RateLimitPolicyDefinition[],
  options: SyncOptions,
): Promise<RateLimitPolicy[]> {
  const prune = checkSyncOptions(rateLimitSource, options);
  const valid = validateRateLimitDefinitions(namespace, definitions);
  return (await syncPolicies(executor, rateLimitSource, namespace, valid, prune)).map(toRateLimitPolicy);
}

export async function listRateLimitPolicies(
  executor: Executor,
  queues: readonly string[] | undefined,
  options: ListPoliciesOptions,
): Promise<RateLimitPolicy[]> {
  return (await listPolicies(executor, rateLimitSource, queues, options)).map(toRateLimitPolicy);
}

function toRateLimitPolicy(row: Row): RateLimitPolicy {
  return {
    namespace: column.text(row, "namespace"),
    queue: column.text(row, "queue_name"),
    ...ratesOf(row),
    updatedAt: column.date(row, "updated_at"),
  };
}

/** The rates in a row that has the columns of a rate-limit policy. */
export function ratesOf(row: Row): { rate: Rate; perKey: Rate | null } {
  return {
    rate: {
      limit: column.number(row, "rate_limit"),
      intervalMs: column.number(row, "rate_interval_ms"),
      burst: column.number(row, "rate_burst"),
    },
    perKey:
      column.numberOrNull(row, "per_key_limit") === null
        ? null
        : {
            limit: column.number(row, "per_key_limit"),
            intervalMs: column.number(row, "per_key_interval_ms"),
            burst: column.number(row, "per_key_burst"),
          },
  };
}
