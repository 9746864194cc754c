import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { Queue } from "@workhorse/queue";
import { installSchema } from "@workhorse/sql";
import { Pool } from "pg";
import { type PostgresServer, startPostgres } from "../postgres";
import { installLedger, judgeStarts, lostAndDoubled, type Verdict } from "./ledger";
import type { Scenario } from "./scenarios";

const queueName = "hammered";
const processes = 8;
const wantedReady = 600;
const chaosEveryMs = 400;
/** So many workers are killed and connections cut at least. */
const leastTroubles = 2;
const drainMs = 60_000;

export interface HammerOptions {
  readonly scenario: Scenario;
  readonly seconds: number;
  /** The built worker-process.js. */
  readonly program: string;
  /** PostgreSQL's major version. Default: as startPostgres has it. */
  readonly major?: number | undefined;
  /** Kills processes and connections, and once the whole server. Default: true. */
  readonly chaos?: boolean;
}

export interface HammerReport extends Verdict {
  readonly version: string;
  /** How often each kind of trouble was made. */
  readonly troubles: Readonly<Record<"workers killed" | "connections cut" | "servers crashed", number>>;
  /** The times, in microseconds since 1970, in which all processes were at it: without the outage of a crash. */
  readonly windows: readonly { readonly fromUs: bigint; readonly toUs: bigint }[];
}

/**
 * Eight processes claim from one queue on a PostgreSQL of its own, while workers are killed, connections are cut and the server
 * crashes; then everything is run to its end and judged by what the transactions themselves wrote down.
 */
export async function hammer(options: HammerOptions): Promise<HammerReport> {
  const server = await startPostgres({
    durable: true,
    ...(options.major === undefined ? {} : { major: options.major }),
  });
  const run = new Run(server, options);
  try {
    return await run.all();
  } finally {
    await run.end();
    await server.stop();
  }
}

class Run {
  readonly #troubles = { "workers killed": 0, "connections cut": 0, "servers crashed": 0 };
  readonly #children = new Set<ChildProcess>();
  readonly #pool: Pool;
  readonly #queue: Queue;
  #hammering = true;
  readonly #windows: { fromUs: bigint; toUs: bigint }[] = [];
  #windowFromUs = 0n;

  constructor(
    private readonly server: PostgresServer,
    private readonly options: HammerOptions,
  ) {
    this.#pool = new Pool({ connectionString: server.url, max: 4 });
    this.#pool.on("error", () => {}); // the server is crashed on purpose
    this.#queue = new Queue(this.#pool);
  }

  async all(): Promise<HammerReport> {
    const { scenario, seconds } = this.options;
    const client = await this.#pool.connect();
    await installSchema(client);
    client.release();
    await installLedger(this.#pool);
    const { rate, caps } = scenario;
    if (rate) await this.#queue.syncRateLimitPolicies("hammer", [{ queue: queueName, ...rate }]);
    if (caps) await this.#queue.syncConcurrencyPolicies("hammer", [{ queue: queueName, ...caps }]);
    const fromUs = await this.#nowUs();

    await this.#topUp();
    await this.#startAll();
    const background = Promise.all([this.#keep(() => this.#topUp(), 50), this.#keep(() => this.#recover(), 200)]);
    this.#windowFromUs = await this.#nowUs();
    await this.#chaos(seconds * 1_000);
    await this.#endWindow();
    this.#hammering = false;
    await background;
    await this.#killAll();
    const verdict = await judgeStarts(this.#pool, scenario, fromUs);
    // Then the limits go, and everything runs to its end.
    await this.#queue.syncRateLimitPolicies("hammer", []);
    await this.#queue.syncConcurrencyPolicies("hammer", []);
    await this.#startAll();
    await this.#drain();
    const faults = [...verdict.faults, ...(await lostAndDoubled(this.#pool))];
    return {
      ...verdict,
      faults,
      version: this.server.version,
      troubles: this.#troubles,
      windows: this.#windows,
    };
  }

  async end(): Promise<void> {
    this.#hammering = false;
    await this.#killAll();
    await this.#pool.end();
  }

  async #startAll(): Promise<void> {
    await Promise.all(Array.from({ length: processes }, () => this.#start()));
  }

  async #killAll(): Promise<void> {
    await Promise.all([...this.#children].map((child) => this.#kill(child)));
  }

  async #start(): Promise<void> {
    const { program, scenario } = this.options;
    const child = fork(program, [this.server.url, queueName, String(scenario.holdMs)]);
    this.#children.add(child);
    await Promise.race([once(child, "message"), once(child, "exit")]);
  }

  async #kill(child: ChildProcess): Promise<void> {
    this.#children.delete(child);
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  }

  async #chaos(ms: number): Promise<void> {
    const until = performance.now() + ms;
    const crashAt = performance.now() + ms / 2;
    // On a machine that is busy otherwise it takes longer, and comes to the same.
    while (performance.now() < until || !this.#enough()) {
      await delay(chaosEveryMs);
      if (this.options.chaos === false) continue;
      if (this.#troubles["servers crashed"] === 0 && performance.now() >= crashAt) await this.#crash();
      else if (Math.random() < 0.5) {
        this.#troubles["workers killed"] += 1;
        await this.#kill([...this.#children][Math.floor(Math.random() * this.#children.size)]!);
        await this.#start();
      } else {
        const { rowCount } = await this.#pool.query(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hammer'
           ORDER BY state = 'active' DESC, random() LIMIT 1`,
        );
        this.#troubles["connections cut"] += rowCount ?? 0;
      }
    }
  }

  #enough(): boolean {
    const least = this.options.chaos === false ? 0 : leastTroubles;
    const troubles = this.#troubles;
    return (
      troubles["workers killed"] >= least &&
      troubles["connections cut"] >= least &&
      troubles["servers crashed"] >= Math.min(least, 1)
    );
  }

  async #endWindow(): Promise<void> {
    this.#windows.push({ fromUs: this.#windowFromUs, toUs: await this.#nowUs() });
  }

  async #crash(): Promise<void> {
    await this.#endWindow();
    await this.server.kill();
    const connected = Promise.all([...this.#children].map((child) => once(child, "message")));
    await this.server.restart();
    await connected;
    this.#troubles["servers crashed"] += 1;
    this.#windowFromUs = await this.#nowUs();
  }

  /** Enqueues, also in transactions that are rolled back, whenever little is left. */
  async #topUp(): Promise<void> {
    const { rows } = await this.#pool.query<{ ready: number }>(
      `SELECT count(*)::int AS ready FROM (SELECT FROM workhorse.job WHERE queue_name = $1 AND state = 'ready' LIMIT $2) AS r`,
      [queueName, wantedReady],
    );
    if (rows[0]!.ready >= wantedReady) return;
    const { keys, keyless } = this.options.scenario;
    const connection = await this.#pool.connect();
    connection.on("error", () => {}); // likewise; the pool listens to idle ones only
    try {
      for (const end of ["ROLLBACK", "COMMIT"]) {
        await connection.query("BEGIN");
        await this.#queue.enqueueMany(
          Array.from({ length: wantedReady }, (_, n) => ({
            type: "hammered",
            queue: queueName,
            concurrencyKey: keyless && n % 5 === 0 ? null : `key ${n % keys}`,
            priority: n % 7 === 0 ? 1 : 0,
            maxAttempts: 1_000_000,
          })),
          { executor: connection },
        );
        await connection.query(end);
      }
      connection.release();
    } catch (error) {
      connection.release(true);
      throw error;
    }
  }

  #recover(): Promise<unknown> {
    return this.#queue.recoverExpired(1_000);
  }

  /** Again and again while it is hammered; while the server is down it fails, which is as it should be. */
  async #keep(work: () => Promise<unknown>, everyMs: number): Promise<void> {
    while (this.#hammering) {
      await work().catch(() => {});
      await delay(everyMs);
    }
  }

  async #drain(): Promise<void> {
    const until = performance.now() + drainMs;
    for (;;) {
      await this.#recover();
      const { rows } = await this.#pool.query("SELECT FROM workhorse.job WHERE state <> 'completed' LIMIT 1");
      if (rows.length === 0) return;
      if (performance.now() > until) return; // what is left is a fault that the judgement finds
      await delay(50);
    }
  }

  async #nowUs(): Promise<bigint> {
    const { rows } = await this.#pool.query<{ us: string }>(
      "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us",
    );
    return BigInt(rows[0]!.us);
  }
}
