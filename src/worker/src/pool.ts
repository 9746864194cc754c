import type { Executor } from "@workhorse/queue";

/** What a worker needs of a pg `Pool`. */
export interface WorkerPool extends Executor {
  connect(): Promise<PooledConnection>;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
  /** pg's pools tell here how many connections they open at most. */
  readonly options?: { readonly max?: number | undefined } | undefined;
}

/** What a worker needs of a pg `PoolClient`. */
export interface PooledConnection extends Executor {
  on(event: "notification", listener: (notification: Notification) => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "end", listener: () => void): unknown;
  /** With an argument the connection is closed instead of being used again. */
  release(destroy?: boolean): void;
}

/** What PostgreSQL's NOTIFY brings. */
export interface Notification {
  readonly channel: string;
  readonly payload?: string | undefined;
}
