import { randomBytes } from "node:crypto";
import type { Logger } from "../logger";
import { Outage } from "../outage";
import type { Notification, PooledConnection, WorkerPool } from "../pool";
import { retryDelay, Sleeper, settlesWithin, startTimer } from "../timing";

const channel = "workhorse_jobs";
/** A notification takes milliseconds; after this it does not come. */
const probeTimeoutMs = 5_000;
/** What is under way when the listener is stopped may take this long to end. */
const closeMs = 2_000;
/** How often it is tried again when notifications do not come through. */
const unsuitedRetryMs = 60_000;

/** What the listener tells. */
export interface ListenerEvents {
  /** Something happened to this queue. */
  readonly notified: (queue: string) => void;
  /** Notifications come from now on, or no longer do. Some may have been missed. */
  readonly changed: (listening: boolean) => void;
}

/** A connection that waits for notifications, made again whenever it breaks. */
export class Listener {
  readonly #sleeper = new Sleeper();
  readonly #outage: Outage;
  readonly #stop = new AbortController();
  #listening = false;
  #running: Promise<void> | undefined;

  constructor(
    private readonly pool: WorkerPool,
    logger: Logger,
    private readonly events: ListenerEvents,
    private readonly timeoutMs = probeTimeoutMs,
  ) {
    this.#outage = new Outage("notifications (until then queues are polled)", logger);
  }

  /** Whether notifications come. */
  get listening(): boolean {
    return this.#listening;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Closes the connection. Never rejects. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#sleeper.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        await this.#listen();
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.#outage.failed(error);
        const unsuited = error instanceof UnsuitedError;
        await this.#sleeper.sleep(unsuited ? unsuitedRetryMs : retryDelay(this.#outage.failures));
      }
    }
  }

  /** Rejects when the connection cannot be made or breaks; resolves after `stop`. */
  async #listen(): Promise<void> {
    const ended = new Ending(this.#stop.signal);
    try {
      const connection = await this.#connect(ended);
      if (connection !== undefined) await this.#listenOn(connection, ended);
    } finally {
      ended.forget();
    }
  }

  async #listenOn(connection: PooledConnection, ended: Ending): Promise<void> {
    let subscribing = Promise.resolve();
    try {
      connection.on("error", (error) => ended.reject(error));
      connection.on("end", () => ended.reject(new Error("the connection was closed")));
      subscribing = this.#subscribe(connection, ended);
      await ended.orDone(subscribing);
      if (this.#stop.signal.aborted) return;
      this.#outage.succeeded();
      this.#change(true);
      await ended.promise;
    } finally {
      // It has LISTENs and listeners on it: nobody else may get it.
      connection.release(true);
      this.#change(false);
      await settlesWithin(subscribing, closeMs);
    }
  }

  /** Undefined after `stop`; a connection that comes later goes back at once. */
  async #connect(ended: Ending): Promise<PooledConnection | undefined> {
    const connecting = this.pool.connect();
    const connection = await ended.orDone(connecting);
    if (connection === undefined) {
      const returned = connecting.then(
        (late) => late.release(true),
        () => undefined,
      );
      await settlesWithin(returned, closeMs);
    }
    return connection;
  }

  /** Listens, and proves that what another connection notifies comes: a pooler takes LISTEN but delivers nothing. */
  async #subscribe(connection: PooledConnection, ended: Ending): Promise<void> {
    const probe = `workhorse_probe_${randomBytes(8).toString("hex")}`;
    let proved = (): void => {};
    const proof = new Promise<void>((resolve) => {
      proved = resolve;
    });
    connection.on("notification", ({ channel: from, payload }: Notification) => {
      if (from === probe) proved();
      else if (from === channel && payload !== undefined) this.events.notified(payload);
    });
    await connection.query(`LISTEN ${channel}`);
    await connection.query(`LISTEN ${probe}`);
    await this.pool.query("SELECT pg_catalog.pg_notify($1, '')", [probe]);
    const timer = startTimer(this.timeoutMs, () => ended.reject(new UnsuitedError()));
    await ended.orDone(proof).finally(() => clearTimeout(timer));
    await connection.query(`UNLISTEN ${probe}`);
  }

  #change(listening: boolean): void {
    if (this.#listening === listening) return;
    this.#listening = listening;
    this.events.changed(listening);
  }
}

/** Notifications do not come through. */
class UnsuitedError extends Error {
  readonly code = "NO_NOTIFICATIONS";

  constructor() {
    super(
      "notifications do not arrive on a connection that listens, as behind a pooler in transaction mode. " +
        "Connect workers directly (or in session mode), or set listen: false to poll without trying.",
    );
  }
}

/** The end of a connection: rejects when it breaks, resolves when the listener is stopped. */
class Ending {
  readonly promise: Promise<void>;
  reject: (error: Error) => void = () => {};
  #resolve: () => void = () => {};

  constructor(private readonly stop: AbortSignal) {
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = () => resolve(); // without the event that it is called with
      this.reject = reject;
    });
    this.promise.catch(() => undefined); // it may break while nobody waits for it
    if (stop.aborted) this.#resolve();
    else stop.addEventListener("abort", this.#resolve, { once: true });
  }

  /** Leaves nothing behind on the signal, which lives as long as the listener. */
  forget(): void {
    this.stop.removeEventListener("abort", this.#resolve);
  }

  /** The work's value, or undefined if the end comes first; rejects when either does. */
  async orDone<T>(work: Promise<T>): Promise<T | undefined> {
    return Promise.race([work, this.promise as Promise<undefined>]);
  }
}
