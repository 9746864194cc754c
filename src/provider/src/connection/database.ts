import type { Executor } from "@workhorse/queue";
import type { Pool, PoolClient, QueryConfig } from "pg";
import { DatabaseProblem, toConnectProblem, toProblem, wantsOtherTls } from "./problems";
import type { ConnectionSettings } from "./settings";
import { Slots } from "./slots";
import { type TlsChoice, tlsChoices } from "./tls";

const MAX_CONNECTIONS = 4;
/** One connection is left for cancelling what the others do. */
const MAX_AT_WORK = MAX_CONNECTIONS - 1;
/** A query whose answer is waited for no longer than that (an option that the driver's types do not have). */
function limited(ms: number, text: string, values?: unknown[]): QueryConfig {
  return { text, ...(values === undefined ? {} : { values }), ...{ query_timeout: ms } };
}

type Work<T> = (client: PoolClient) => Promise<T>;

/** How much longer than the server's own limit an answer is waited for: then the server is taken for lost. */
const ANSWER_GRACE_MS = 10_000;

/**
 * One database: connections are made when the first work comes, at most four. There is no session state and there are no
 * named statements, so that it works through a transaction-mode pooler.
 */
export class Database {
  #pool: Promise<Pool> | undefined;
  #closed = false;
  readonly #slots = new Slots(MAX_AT_WORK);

  constructor(readonly settings: ConnectionSettings) {}

  /**
   * Runs work in one READ COMMITTED transaction with the configured timeouts. The signal cancels the running statement.
   * @throws DatabaseProblem
   */
  async transaction<T>(signal: AbortSignal, work: (executor: Executor) => Promise<T>): Promise<T> {
    return this.#withClient(signal, async (client) => {
      const { statementMs, lockMs } = this.settings.timeouts;
      // The server's own limits count; this one is for a server that has stopped answering.
      const query = (text: string, values: unknown[] = []) =>
        client.query(limited(statementMs + ANSWER_GRACE_MS, text, values));
      // A provider that was killed leaves no backend waiting for a lock (not every system's server can tell).
      // One round trip; SET LOCAL by its function form, which also tells whom to cancel.
      const begin = `BEGIN ISOLATION LEVEL READ COMMITTED;
        SELECT set_config('statement_timeout', '${statementMs}', true), set_config('lock_timeout', '${lockMs}', true),
          CASE WHEN version() LIKE '%linux%' THEN set_config('client_connection_check_interval', '1s', true) END,
          pg_backend_pid() AS pid`;
      const begun = (await client.query(limited(ANSWER_GRACE_MS, begin))) as unknown as { rows: { pid: number }[] }[];
      const pid = begun[1]!.rows[0]!.pid;
      const cancel = () => void this.#cancel(pid);
      signal.addEventListener("abort", cancel, { once: true });
      try {
        signal.throwIfAborted();
        const result = await work({ query });
        signal.throwIfAborted();
        await query("COMMIT");
        return result;
      } catch (error) {
        await client.query(limited(ANSWER_GRACE_MS, "ROLLBACK")).catch(() => {});
        throw error;
      } finally {
        signal.removeEventListener("abort", cancel);
      }
    });
  }

  /**
   * Lends a connection outside any transaction, to work that makes its own. The configured timeouts do not apply.
   * @throws DatabaseProblem
   */
  async connection<T>(signal: AbortSignal, work: (executor: Executor) => Promise<T>): Promise<T> {
    return this.#withClient(signal, work);
  }

  /** Closes all connections. Safe to call more than once. */
  async close(): Promise<void> {
    this.#closed = true;
    const pool = await this.#pool?.catch(() => undefined);
    this.#pool = undefined;
    await pool?.end();
  }

  async #withClient<T>(signal: AbortSignal, work: Work<T>): Promise<T> {
    // The pool's own limit for waiting is the one for connecting; work that is only queued must not run into it.
    await this.#slots.acquire(signal);
    try {
      return await this.#withPooledClient(work);
    } catch (error) {
      throw toProblem(error, this.settings);
    } finally {
      this.#slots.release();
    }
  }

  async #withPooledClient<T>(work: Work<T>): Promise<T> {
    const client = await this.#connect().catch((error: unknown) => {
      throw toConnectProblem(error, this.settings);
    });
    // A lost connection also rejects the query under way; without a listener the event would end the process.
    let unusable = false;
    const discard = () => {
      unusable = true;
    };
    client.on("error", discard);
    try {
      return await work(client);
    } catch (error) {
      // Begun and not ended, or in an unknown state: cheaper to connect anew than to find out.
      discard();
      throw error;
    } finally {
      client.off("error", discard);
      client.release(unusable);
    }
  }

  async #connect(): Promise<PoolClient> {
    if (this.#closed) throw new DatabaseProblem("unreachable", "The provider is ending", "No further work is taken.");
    this.#pool ??= this.#open().catch((error: unknown) => {
      this.#pool = undefined;
      throw error;
    });
    return (await this.#pool).connect();
  }

  /** Makes the pool with the first way of connecting that is not turned away for its TLS. */
  async #open(): Promise<Pool> {
    const choices = tlsChoices(this.settings);
    for (const [i, tls] of choices.entries()) {
      const pool = this.#newPool(tls);
      try {
        (await pool.connect()).release();
        return pool;
      } catch (error) {
        await pool.end();
        if (i === choices.length - 1 || !wantsOtherTls(error)) throw error;
      }
    }
    throw new Error("there is no way to connect");
  }

  #newPool(tls: TlsChoice): Pool {
    // The driver is not needed to answer for schemas and validation, so it is loaded when it is.
    const pg = require("pg") as typeof import("pg");
    const { host, port, database, username, password, timeouts } = this.settings;
    const pool = new pg.Pool({
      host,
      port,
      database,
      user: username,
      // As a function: an empty text would make the driver look for PGPASSWORD and ~/.pgpass.
      password: () => password ?? "",
      ssl: tls,
      max: MAX_CONNECTIONS,
      connectionTimeoutMillis: timeouts.connectMs,
      idleTimeoutMillis: 30_000,
      allowExitOnIdle: true,
      application_name: "terraform-provider-workhorse",
    });
    // An idle connection that breaks is replaced by the next work.
    pool.on("error", () => {});
    return pool;
  }

  /** Asks the server to end what a backend is doing; best effort. */
  async #cancel(pid: number): Promise<void> {
    try {
      await (await this.#pool)?.query("SELECT pg_cancel_backend($1)", [pid]);
    } catch {
      // The statement then ends by its own timeout.
    }
  }
}
