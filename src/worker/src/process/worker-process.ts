import { Queue, validation } from "@workhorse/queue";
import type { Logger } from "../logger";
import { type CompleteProcessOptions, checkProcessOptions, type WorkerProcessOptions } from "../options";
import type { WorkerPool } from "../pool";
import { Listener } from "./listener";
import { Maintenance } from "./maintenance";

/** A worker that runs in a process. */
export interface Subscriber {
  readonly notified: (queue: string) => void;
  readonly listeningChanged: (listening: boolean) => void;
}

/**
 * What the workers of one process share over one pool: the connection that waits for notifications, and the maintenance. It is
 * at work while at least one of its workers runs.
 *
 * ```ts
 * const shared = new WorkerProcess(pool);
 * const mail = new Worker(shared, { queues: ["mail"] });
 * const reports = new Worker(shared, { queues: ["reports"], concurrency: 2 });
 * ```
 */
export class WorkerProcess {
  /** The workers' client. */
  readonly queue: Queue;
  readonly logger: Logger;
  readonly #pool: WorkerPool;
  readonly #options: CompleteProcessOptions;
  readonly #subscribers = new Set<Subscriber>();
  #services: Services | undefined;

  /**
   * @param pool a pg `Pool`, whose connections run in READ COMMITTED. One of them is taken for notifications.
   * @throws InvalidArgumentError
   */
  constructor(pool: WorkerPool, options: WorkerProcessOptions = {}) {
    checkPool(pool);
    this.#options = checkProcessOptions(options, "new WorkerProcess(pool, options)");
    this.#pool = pool;
    this.logger = this.#options.logger;
    this.queue = new Queue(pool);
  }

  /** Whether notifications come; while they do not, workers poll. */
  get listening(): boolean {
    return this.#services?.listening ?? false;
  }

  /** @internal Called by workers when they start; returns what they call when they have stopped. */
  attach(subscriber: Subscriber): () => Promise<void> {
    this.#subscribers.add(subscriber);
    if (this.#services === undefined) {
      this.#services = new Services(this.#pool, this.queue, this.#options, {
        notified: (queue) => {
          for (const each of this.#subscribers) each.notified(queue);
        },
        listeningChanged: (listening) => {
          for (const each of this.#subscribers) each.listeningChanged(listening);
        },
      });
      this.#services.start();
    }
    return async () => {
      if (!this.#subscribers.delete(subscriber) || this.#subscribers.size > 0) return;
      const services = this.#services;
      this.#services = undefined;
      await services?.stop();
    };
  }
}

/** What runs while a worker does. */
class Services {
  readonly #listener: Listener | undefined;
  readonly #maintenance: Maintenance;

  constructor(
    private readonly pool: WorkerPool,
    queue: Queue,
    private readonly options: CompleteProcessOptions,
    all: Subscriber,
  ) {
    const { listen, logger, maintenanceIntervalMs } = options;
    const onlyConnection = pool.options?.max === 1;
    if (listen && !onlyConnection) {
      this.#listener = new Listener(pool, logger, { notified: all.notified, changed: all.listeningChanged });
    } else {
      const why = onlyConnection ? "the pool has one connection only" : "listen is false";
      logger.info("queues are polled, without notifications", { why });
    }
    this.#maintenance = new Maintenance(queue, maintenanceIntervalMs, logger);
  }

  get listening(): boolean {
    return this.#listener?.listening ?? false;
  }

  start(): void {
    this.pool.on("error", this.#onIdleError);
    this.#listener?.start();
    this.#maintenance.start();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#listener?.stop(), this.#maintenance.stop()]);
    this.pool.removeListener("error", this.#onIdleError);
  }

  /** Without a listener an idle connection that breaks would end the process; the pool has already dropped it. */
  readonly #onIdleError = (error: Error): void => {
    this.options.logger.debug("an idle connection of the pool broke", { error });
  };
}

/** Throws InvalidArgumentError unless the value looks like a pg `Pool`. */
function checkPool(pool: unknown): void {
  const methods = ["query", "connect", "on", "removeListener"] as const;
  const given = pool as Partial<WorkerPool> | null | undefined;
  if (methods.every((name) => typeof given?.[name] === "function") && !("processID" in (given as object))) return;
  const got = validation.shown(pool);
  throw validation.refuseArgument("new Worker(pool, options)")({ path: "pool", got, accepted: "a Pool of pg" });
}
