export { WorkerCrashedError, WorkerStoppingError } from "./errors";
export { consoleLogger, type LogFields, type Logger, silentLogger } from "./logger";
export type { WorkerOptions, WorkerProcessOptions } from "./options";
export type { Notification, PooledConnection, WorkerPool } from "./pool";
export { WorkerProcess } from "./process/worker-process";
export type { Handler, JobContext, PayloadMap } from "./running/handlers";
export type { JobEnd } from "./running/outcome";
export type { Leftover, StopReport, WorkerState } from "./stopping";
export { type RunOptions, Worker } from "./worker";
