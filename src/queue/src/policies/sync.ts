import { call } from "../call";
import type { Executor, ExecutorOption } from "../executor";
import type { Row } from "../rows";
import { checkBoolean, checkExecutor, checkKeys, checkName, checkNames, refuseArgument } from "../validation";
import { type PolicyKind, refuseSync } from "./validate";

/** Options of the sync methods. */
export interface SyncOptions extends ExecutorOption {
  /** Whether the namespace's other policies of the kind are removed. Default: true. */
  readonly prune?: boolean | undefined;
}

/** Options of the list methods. */
export interface ListPoliciesOptions extends ExecutorOption {
  /** Only the policies of this namespace. Default: those of all namespaces. */
  readonly namespace?: string | undefined;
}

/** Where PostgreSQL keeps the policies of a kind. */
export interface PolicySource {
  readonly kind: PolicyKind;
  readonly table: string;
  readonly syncFunction: string;
  readonly columns: string;
  readonly lock: string;
}

export const rateLimitSource: PolicySource = {
  kind: "rate-limit",
  table: "workhorse.rate_limit_policy",
  syncFunction: "workhorse.sync_rate_limit_policies_v1",
  columns:
    "queue_name, namespace, rate_limit, rate_interval_ms, rate_burst, per_key_limit, per_key_interval_ms, per_key_burst, updated_at",
  lock: "workhorse:rate-limit-policies",
};

export const concurrencySource: PolicySource = {
  kind: "concurrency",
  table: "workhorse.concurrency_policy",
  syncFunction: "workhorse.sync_concurrency_policies_v1",
  columns: "queue_name, namespace, max_active, max_active_per_key, updated_at",
  lock: "workhorse:concurrency-policies",
};

/** Checks the options of a sync. Returns whether it prunes. */
export function checkSyncOptions(source: PolicySource, options: SyncOptions): boolean {
  const refuse = refuseSync(source.kind);
  checkKeys<SyncOptions>(options, ["prune", "executor"], "options", refuse);
  checkExecutor(options.executor, "options.executor", refuse);
  return options.prune === undefined ? true : checkBoolean(options.prune, "options.prune", refuse);
}

/** One call of the sync function. Definitions must be valid. */
export function syncPolicies(
  executor: Executor,
  source: PolicySource,
  namespace: string,
  definitions: readonly unknown[],
  prune: boolean,
): Promise<Row[]> {
  return call(
    executor,
    `SELECT ${source.columns} FROM ${source.syncFunction}($1, $2, $3) ORDER BY queue_name COLLATE "C"`,
    [namespace, JSON.stringify(definitions), prune],
    "definition",
  );
}

/** Reads the persisted policies, ordered by the bytes of the queue's name. */
export async function listPolicies(
  executor: Executor,
  source: PolicySource,
  queues: readonly string[] | undefined,
  options: ListPoliciesOptions,
): Promise<Row[]> {
  const refuse = refuseArgument(`the list of ${source.kind} policies`);
  checkNames(queues, "queues", refuse);
  checkKeys<ListPoliciesOptions>(options, ["namespace", "executor"], "options", refuse);
  checkExecutor(options.executor, "options.executor", refuse);
  if (options.namespace !== undefined) checkName(options.namespace, "options.namespace", refuse);
  return call(
    executor,
    `SELECT ${source.columns} FROM ${source.table}
     WHERE ($1::text[] IS NULL OR queue_name = ANY ($1)) AND ($2::text IS NULL OR namespace = $2)
     ORDER BY queue_name COLLATE "C"`,
    [queues ?? null, options.namespace ?? null],
  );
}

/** Takes the lock that the sync functions of a kind take, until the transaction that the executor is in ends. */
export async function lockPolicies(executor: Executor, source: PolicySource): Promise<void> {
  await call(executor, "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))", [source.lock]);
}
