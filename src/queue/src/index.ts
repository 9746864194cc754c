export { type Bound, bounds, SchemaError, type SchemaProblem } from "@workhorse/sql";
export {
  type Fault,
  InvalidArgumentError,
  InvalidDefinitionError,
  InvalidJobError,
  IsolationLevelError,
  LeaseLostError,
  OwnershipConflictError,
  PermissionError,
  RefusedError,
  WorkhorseError,
} from "./errors";
export type { Executor, ExecutorOption } from "./executor";
export type { ClaimOptions } from "./jobs/claim";
export type { BackOffOptions, SweepOptions } from "./jobs/control";
export { type ErrorJson, toErrorJson } from "./jobs/error-json";
export type { JobExplanation } from "./jobs/explain";
export type { Completion, FailOptions, ReleaseOptions } from "./jobs/leases";
export type {
  Claim,
  ClaimedJob,
  ClaimReason,
  FailOutcome,
  JobOptions,
  Lease,
  NewJob,
  RecoveredJob,
  RetryPolicy,
} from "./jobs/types";
export type {
  ConcurrencyPolicy,
  ConcurrencyPolicyDefinition,
  Rate,
  RateLimitPolicy,
  RateLimitPolicyDefinition,
} from "./policies/definitions";
export type { ListPoliciesOptions, SyncOptions } from "./policies/sync";
export { type EnqueueOptions, Queue } from "./queue";
export type { ConcurrencyStatus } from "./statuses/concurrency";
export type { Health, QueueHealth } from "./statuses/health";
export type { RateLimitStatus } from "./statuses/rate-limits";
/** The checks behind options, for packages that build on this one: the same sentences everywhere. */
export * as validation from "./validation";
