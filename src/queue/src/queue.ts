import type { Executor, ExecutorOption } from "./executor";
import { type ClaimOptions, checkClaimOptions, claim } from "./jobs/claim";
import * as control from "./jobs/control";
import { insertJobs, jobOptionNames, jobText, jobTexts, refuseJob } from "./jobs/enqueue";
import { explain, type JobExplanation } from "./jobs/explain";
import * as leases from "./jobs/leases";
import type { Claim, FailOutcome, JobOptions, Lease, NewJob, RecoveredJob } from "./jobs/types";
import { listConcurrencyPolicies, syncConcurrencyPolicies } from "./policies/concurrency";
import type {
  ConcurrencyPolicy,
  ConcurrencyPolicyDefinition,
  RateLimitPolicy,
  RateLimitPolicyDefinition,
} from "./policies/definitions";
import { listRateLimitPolicies, syncRateLimitPolicies } from "./policies/rate-limits";
import {
  concurrencySource,
  type ListPoliciesOptions,
  lockPolicies,
  type PolicySource,
  rateLimitSource,
  type SyncOptions,
} from "./policies/sync";
import { SchemaCheck } from "./schema-check";
import { type ConcurrencyStatus, concurrencyStatuses } from "./statuses/concurrency";
import { type Health, health } from "./statuses/health";
import { type RateLimitStatus, rateLimitStatuses } from "./statuses/rate-limits";
import { checkExecutor, checkInteger, checkKeys, checkNames, type Refuse, refuseArgument } from "./validation";

/** Options of `enqueue`. */
export interface EnqueueOptions extends JobOptions, ExecutorOption {}

/**
 * The queue client: policies, jobs, statuses. It holds no connection and no state but that the schema's version was found
 * good, which it checks before its first job function.
 *
 * Arguments are checked before anything is sent: `InvalidArgumentError`, `InvalidDefinitionError` and `InvalidJobError` say
 * what was got, what is accepted and where. Refusals of the database come as typed errors whose `cause` is the driver's
 * error; errors that are not refusals (a broken connection, a timeout) come as the driver throws them.
 */
export class Queue {
  readonly #executor: Executor;
  readonly #schema = new SchemaCheck();

  /** @param executor a pg `Pool`, `Client` or `PoolClient`, or anything else with `query(text, values)`. */
  constructor(executor: Executor) {
    checkExecutor(executor ?? null, "executor", refuseArgument("new Queue(executor)"));
    this.#executor = executor;
  }

  // Policies -----------------------------------------------------------------------------------------------------------

  /**
   * Makes the namespace's rate-limit policies what the definitions say, all or nothing; by default its other ones are
   * removed. Returns the namespace's policies after the call, ordered by the bytes of the queue's name.
   *
   * @throws InvalidDefinitionError
   * @throws OwnershipConflictError when a queue's policy belongs to another namespace.
   * @throws IsolationLevelError in a REPEATABLE READ or SERIALIZABLE transaction.
   */
  async syncRateLimitPolicies(
    namespace: string,
    definitions: readonly RateLimitPolicyDefinition[],
    options: SyncOptions = {},
  ): Promise<RateLimitPolicy[]> {
    return syncRateLimitPolicies(options?.executor ?? this.#executor, namespace, definitions, options);
  }

  /** The persisted rate-limit policies of some queues, or of all, ordered by the bytes of the queue's name. */
  async listRateLimitPolicies(
    queues?: readonly string[],
    options: ListPoliciesOptions = {},
  ): Promise<RateLimitPolicy[]> {
    return listRateLimitPolicies(options?.executor ?? this.#executor, queues, options);
  }

  /**
   * Makes other syncs of rate-limit policies wait until the executor's transaction ends, so that it can read, decide and
   * sync atomically. Take the lock of rate limits before the one of concurrency policies.
   *
   * @param executor one connection, inside a transaction.
   */
  async lockRateLimitPolicies(executor: Executor): Promise<void> {
    return this.#lock(rateLimitSource, executor);
  }

  /** As `syncRateLimitPolicies`, for concurrency policies. */
  async syncConcurrencyPolicies(
    namespace: string,
    definitions: readonly ConcurrencyPolicyDefinition[],
    options: SyncOptions = {},
  ): Promise<ConcurrencyPolicy[]> {
    return syncConcurrencyPolicies(options?.executor ?? this.#executor, namespace, definitions, options);
  }

  /** The persisted concurrency policies of some queues, or of all, ordered by the bytes of the queue's name. */
  async listConcurrencyPolicies(
    queues?: readonly string[],
    options: ListPoliciesOptions = {},
  ): Promise<ConcurrencyPolicy[]> {
    return listConcurrencyPolicies(options?.executor ?? this.#executor, queues, options);
  }

  /** As `lockRateLimitPolicies`, for concurrency policies. */
  async lockConcurrencyPolicies(executor: Executor): Promise<void> {
    return this.#lock(concurrencySource, executor);
  }

  // Jobs ---------------------------------------------------------------------------------------------------------------

  /**
   * Enqueues one job; with `executor`, inside its transaction. Returns the job's id, a 64-bit integer in decimal.
   *
   * @param payload anything that JSON can hold; default: null.
   * @throws InvalidJobError
   */
  async enqueue(type: string, payload?: unknown, options: EnqueueOptions = {}): Promise<string> {
    const refuse = refuseJob({ type });
    checkKeys<EnqueueOptions>(options, [...jobOptionNames, "executor"], "options", refuse);
    const { executor, ...jobOptions } = options as EnqueueOptions;
    const text = jobText({ ...jobOptions, type, payload }, "", "options");
    const [id] = await insertJobs(await this.#checked({ executor }, refuse), [text]);
    return id!;
  }

  /**
   * Enqueues up to 10,000 jobs in one statement, all or nothing. Returns their ids in the order of the jobs.
   *
   * @throws InvalidJobError that points at the first job at fault.
   */
  async enqueueMany(jobs: readonly NewJob[], options: ExecutorOption = {}): Promise<string[]> {
    const texts = jobTexts(jobs);
    const refuse = refuseJob(undefined);
    checkKeys<ExecutorOption>(options, ["executor"], "options", refuse);
    return insertJobs(await this.#checked(options, refuse), texts);
  }

  /**
   * Starts ready jobs of one queue, as many as its limits allow, and holds them under a lease: what a worker's loop calls.
   *
   * @throws InvalidArgumentError
   * @throws IsolationLevelError in a REPEATABLE READ or SERIALIZABLE transaction.
   */
  async claim(options: ClaimOptions): Promise<Claim> {
    const valid = checkClaimOptions(options);
    return claim(await this.#checked(options, refuseArgument("claim")), valid);
  }

  /**
   * Ends a job as completed.
   *
   * @param result kept with the job: anything that JSON can hold; default: none.
   * @throws LeaseLostError when the lease expired, the job was started again, cancelled or finished.
   * @throws InvalidJobError when the result cannot be stored.
   */
  async complete(job: Lease, result?: unknown, options: ExecutorOption = {}): Promise<void> {
    const refuse = refuseArgument("complete");
    const lease = leases.checkLease(job, "job", refuse);
    checkKeys<ExecutorOption>(options, ["executor"], "options", refuse);
    const text = leases.resultText(lease, result);
    return leases.complete(await this.#checked(options, refuse), lease, text);
  }

  /**
   * Ends jobs as completed, at most 10,000 in one statement. Returns the ids of those whose lease is lost, which are left as
   * they are.
   *
   * @throws InvalidJobError when a result cannot be stored; then none is completed.
   */
  async completeMany(completions: readonly leases.Completion[], options: ExecutorOption = {}): Promise<string[]> {
    const refuse = refuseArgument("completeMany");
    const checked = leases.checkCompletions(completions);
    checkKeys<ExecutorOption>(options, ["executor"], "options", refuse);
    return leases.completeMany(await this.#checked(options, refuse), checked);
  }

  /**
   * Ends a start as failed: while attempts are left, the job is tried again after a delay.
   *
   * @param error what was thrown, of any kind; kept with the job, bounded in size.
   * @throws LeaseLostError as complete does.
   */
  async fail(job: Lease, error: unknown, options: leases.FailOptions = {}): Promise<FailOutcome> {
    const refuse = refuseArgument("fail");
    const lease = leases.checkLease(job, "job", refuse);
    leases.checkFailOptions(options);
    return leases.fail(await this.#checked(options, refuse), lease, error, options);
  }

  /**
   * Extends the leases of held jobs to `leaseMs` from now. Returns the ids of those whose lease is lost: their handlers must
   * stop.
   *
   * @param leaseMs an integer, 100 to 86,400,000.
   */
  async heartbeat(jobs: readonly Lease[], leaseMs: number, options: ExecutorOption = {}): Promise<string[]> {
    const refuse = refuseArgument("heartbeat");
    const held = leases.checkHeartbeat(jobs, leaseMs);
    checkKeys<ExecutorOption>(options, ["executor"], "options", refuse);
    return leases.heartbeat(await this.#checked(options, refuse), held, leaseMs);
  }

  /**
   * Gives a job back unhandled: the start counts as no attempt, its token stays spent.
   *
   * @throws LeaseLostError as complete does.
   */
  async release(job: Lease, options: leases.ReleaseOptions = {}): Promise<void> {
    const refuse = refuseArgument("release");
    const lease = leases.checkLease(job, "job", refuse);
    leases.checkReleaseOptions(options);
    return leases.release(await this.#checked(options, refuse), lease, options);
  }

  /**
   * Cancels a job that is not finished; the holder of an active one is refused from then on. Returns the state that it was
   * in, or null when there was nothing to cancel.
   */
  async cancel(jobId: string, options: ExecutorOption = {}): Promise<"ready" | "scheduled" | "active" | null> {
    const refuse = refuseArgument("cancel");
    const id = leases.checkInteger64(jobId, "jobId", refuse);
    checkKeys<ExecutorOption>(options, ["executor"], "options", refuse);
    return control.cancel(await this.#checked(options, refuse), id);
  }

  /**
   * Closes a queue, or one key of it, to new starts for a while, because the outside world said so. Tokens are neither added
   * nor taken; the longest back-off in force counts. Returns until when it is closed, or null when it was lifted (`forMs: 0`).
   */
  async backOff(queue: string, options: control.BackOffOptions): Promise<Date | null> {
    control.checkBackOff(queue, options);
    return control.backOff(await this.#checked(options, refuseArgument("backOff")), queue, options);
  }

  /**
   * Brings back jobs whose lease expired: a part of workers' maintenance. An expired lease counts as a failed attempt.
   *
   * @param limit jobs at most, 1 to 10,000. Default: 100.
   */
  async recoverExpired(limit = 100, options: ExecutorOption = {}): Promise<RecoveredJob[]> {
    return control.recoverExpired(await this.#maintenance("recoverExpired", limit, options), limit);
  }

  /**
   * Makes scheduled jobs that are due ready, and returns how many: a part of workers' maintenance. Claims see due jobs by
   * themselves.
   *
   * @param limit jobs at most, 1 to 10,000. Default: 1,000.
   */
  async promote(limit = 1_000, options: ExecutorOption = {}): Promise<number> {
    return control.promote(await this.#maintenance("promote", limit, options), limit);
  }

  /**
   * Removes what is no longer needed (finished jobs that were kept long enough, and the like), and returns how many rows: a
   * part of workers' maintenance.
   *
   * @param limit rows at most, 1 to 10,000. Default: 1,000.
   */
  async sweep(limit = 1_000, options: control.SweepOptions = {}): Promise<number> {
    control.checkSweepOptions(options);
    return control.sweep(await this.#maintenance("sweep", limit, { executor: options.executor }), limit, options);
  }

  /** Says why a job is where it is, and what it waits for; null when there is no such job. */
  async explain(jobId: string, options: ExecutorOption = {}): Promise<JobExplanation | null> {
    const refuse = refuseArgument("explain");
    const id = leases.checkInteger64(jobId, "jobId", refuse);
    checkKeys<ExecutorOption>(options, ["executor"], "options", refuse);
    return explain(await this.#checked(options, refuse), id);
  }

  // Statuses -----------------------------------------------------------------------------------------------------------

  /** What the rate limits of some queues, or of all, let through right now. A queue without a policy has no status. */
  async rateLimitStatuses(queues?: readonly string[], options: ExecutorOption = {}): Promise<RateLimitStatus[]> {
    return rateLimitStatuses(await this.#reading("rateLimitStatuses", queues, options), queues);
  }

  /** What the concurrency policies of some queues, or of all, let through right now. */
  async concurrencyStatuses(queues?: readonly string[], options: ExecutorOption = {}): Promise<ConcurrencyStatus[]> {
    return concurrencyStatuses(await this.#reading("concurrencyStatuses", queues, options), queues);
  }

  /** Every queue's depth by state, with the statuses of its policies. */
  async health(options: ExecutorOption = {}): Promise<Health> {
    return health(await this.#reading("health", undefined, options));
  }

  // --------------------------------------------------------------------------------------------------------------------

  /** The executor to use, on which the schema was found good. */
  async #checked(options: ExecutorOption, refuse: Refuse): Promise<Executor> {
    checkExecutor(options.executor, "options.executor", refuse);
    const executor = options.executor ?? this.#executor;
    await this.#schema.ensure(executor);
    return executor;
  }

  async #maintenance(method: string, limit: number, options: ExecutorOption): Promise<Executor> {
    const refuse = refuseArgument(method);
    checkInteger(limit, control.limitBound, "limit", refuse);
    checkKeys<ExecutorOption>(options, ["executor"], "options", refuse);
    return this.#checked(options, refuse);
  }

  async #reading(method: string, queues: readonly string[] | undefined, options: ExecutorOption): Promise<Executor> {
    const refuse = refuseArgument(method);
    checkNames(queues, "queues", refuse);
    checkKeys<ExecutorOption>(options, ["executor"], "options", refuse);
    return this.#checked(options, refuse);
  }

  async #lock(source: PolicySource, executor: Executor): Promise<void> {
    checkExecutor(executor ?? null, "executor", refuseArgument(`the lock of ${source.kind} policies`));
    return lockPolicies(executor, source);
  }
}
