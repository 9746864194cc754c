import type { Executor } from "../executor";
import { column, type Row } from "../rows";
import type { ConcurrencyPolicy, ConcurrencyPolicyDefinition } from "./definitions";
import {
  checkSyncOptions,
  concurrencySource,
  type ListPoliciesOptions,
  listPolicies,
  type SyncOptions,
  syncPolicies,
} from "./sync";
import { validateConcurrencyDefinitions } from "./validate";

export async function syncConcurrencyPolicies(
  executor: Executor,
  namespace: string,
  definitions: readonly ConcurrencyPolicyDefinition[],
  options: SyncOptions,
): Promise<ConcurrencyPolicy[]> {
  const prune = checkSyncOptions(concurrencySource, options);
  const valid = validateConcurrencyDefinitions(namespace, definitions);
  return (await syncPolicies(executor, concurrencySource, namespace, valid, prune)).map(toConcurrencyPolicy);
}

export async function listConcurrencyPolicies(
  executor: Executor,
  queues: readonly string[] | undefined,
  options: ListPoliciesOptions,
): Promise<ConcurrencyPolicy[]> {
  return (await listPolicies(executor, concurrencySource, queues, options)).map(toConcurrencyPolicy);
}

function toConcurrencyPolicy(row: Row): ConcurrencyPolicy {
  return {
    namespace: column.text(row, "namespace"),
    queue: column.text(row, "queue_name"),
    maxActive: column.number(row, "max_active"),
    maxActivePerKey: column.numberOrNull(row, "max_active_per_key"),
    updatedAt: column.date(row, "updated_at"),
  };
}
