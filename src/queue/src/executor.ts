/**
 * What a query runs on: a pg `Pool`, `Client` or `PoolClient`, or anything else with this method. On a client that is inside
 * a transaction the query is a part of it.
 */
export interface Executor {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

/** The last option of every method: run on this executor instead of the queue's own, so as to join its transaction. */
export interface ExecutorOption {
  /** Default: the executor that the `Queue` was made with. */
  readonly executor?: Executor | undefined;
}

/** Whether a value can be used as an executor. */
export function isExecutor(value: unknown): value is Executor {
  return (
    (typeof value === "object" || typeof value === "function") &&
    value !== null &&
    typeof (value as Partial<Executor>).query === "function"
  );
}
