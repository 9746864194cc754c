import type { Pool } from "pg";
import type { LogFields, Logger, PooledConnection, WorkerPool } from "../src";

/** A promise that a test resolves. */
export interface Gate {
  readonly passed: Promise<void>;
  open(): void;
}

export function gate(): Gate {
  let open = (): void => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}

/** Lets tests wait until what was recorded fulfils a condition. */
export class Recording<T> {
  readonly all: T[] = [];
  readonly #waiting = new Set<() => void>();

  add(item: T): void {
    this.all.push(item);
    for (const check of this.#waiting) check();
  }

  /** Resolves when the condition holds, at once or later; a test that waits in vain ends by Jest's time limit. */
  until(condition: (all: readonly T[]) => boolean): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        if (!condition(this.all)) return;
        this.#waiting.delete(check);
        resolve();
      };
      this.#waiting.add(check);
      check();
    });
  }
}

export interface LogLine {
  readonly level: keyof Logger;
  readonly message: string;
  readonly fields: LogFields;
}

/** A logger that keeps what it is told. */
export class RecordingLogger extends Recording<LogLine> implements Logger {
  debug = this.#record("debug");
  info = this.#record("info");
  warn = this.#record("warn");
  error = this.#record("error");

  lines(pattern: RegExp): LogLine[] {
    return this.all.filter((line) => pattern.test(line.message));
  }

  untilLine(pattern: RegExp, times = 1): Promise<void> {
    return this.until((all) => all.filter((line) => pattern.test(line.message)).length >= times);
  }

  #record(level: keyof Logger) {
    return (message: string, fields: LogFields = {}): void => this.add({ level, message, fields });
  }
}

export interface Sent {
  readonly text: string;
  readonly values: unknown[] | undefined;
  readonly rows: readonly unknown[];
  /** How many had been answered when it was sent. */
  readonly place: number;
}

/** A pool that keeps what was answered, and can be told to fail. */
export class RecordingPool extends Recording<Sent> implements WorkerPool {
  /** Queries whose text matches are rejected instead of being sent. */
  failing: RegExp | undefined;
  readonly options: { readonly max?: number };
  /** Connections that were taken and not given back. */
  readonly listening: PooledConnection[] = [];
  #claiming = 0;

  constructor(private readonly pool: Pool) {
    super();
    this.options = pool.options;
  }

  sent(pattern: RegExp): Sent[] {
    return this.all.filter((each) => pattern.test(each.text));
  }

  untilSent(pattern: RegExp, times = 1): Promise<void> {
    return this.until((all) => all.filter((each) => pattern.test(each.text)).length >= times);
  }

  /** Resolves when so many completions were answered, however many statements they took. */
  untilCompleted(times = 1): Promise<void> {
    const jobs = ({ text, values }: Sent): number =>
      text.includes("complete_many_v1") ? (values![0] as unknown[]).length : Number(text.includes("complete_v1"));
    return this.until((all) => all.reduce((sum, each) => sum + jobs(each), 0) >= times);
  }

  /** Resolves when notifications come and the worker's claims have come to rest, the latest one refused for this reason. */
  async untilRefused(reason: string): Promise<void> {
    const atRest = (): boolean => {
      const listening = this.all.findIndex((each) => each.text.startsWith("UNLISTEN"));
      const last = this.sent(/claim_v1/).at(-1);
      const refused = (last?.rows.at(-1) as { reason?: string } | undefined)?.reason === reason;
      return listening >= 0 && last !== undefined && last.place > listening && refused && this.#claiming === 0;
    };
    do {
      await this.until(atRest);
      await new Promise((resolve) => setImmediate(resolve));
    } while (!atRest());
  }

  async query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }> {
    return this.#run(this.pool, text, values);
  }

  async connect(): Promise<PooledConnection> {
    if (this.failing?.test("connect")) throw Object.assign(new Error("no connection"), { code: "ECONNREFUSED" });
    const client = await this.pool.connect();
    const connection: PooledConnection = {
      query: (text, values) => this.#run(client, text, values),
      on: (event: "notification" | "error" | "end", listener: (argument: never) => void) =>
        client.on(event as "error", listener as () => void),
      release: (destroy) => {
        this.listening.splice(this.listening.indexOf(connection), 1);
        client.release(destroy);
      },
    };
    this.listening.push(connection);
    return connection;
  }

  on(event: "error", listener: (error: Error) => void): unknown {
    return this.pool.on(event, listener);
  }

  removeListener(event: "error", listener: (error: Error) => void): unknown {
    return this.pool.removeListener(event, listener);
  }

  async #run(executor: Pick<Pool, "query">, text: string, values?: unknown[]): Promise<{ rows: unknown[] }> {
    if (this.failing?.test(text)) throw Object.assign(new Error("the database is down"), { code: "57P03" });
    const place = this.all.length;
    const claims = text.includes("claim_v1") ? 1 : 0;
    this.#claiming += claims;
    const { rows } = await executor.query(text, values).finally(() => {
      this.#claiming -= claims;
    });
    this.add({ text, values, rows, place });
    return { rows };
  }
}
