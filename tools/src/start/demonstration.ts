import { resolve } from "node:path";
import { Queue, type Rate } from "@workhorse/queue";
import { Client, Pool } from "pg";
import type { RateFrom } from "../bounds/bucket";
import { DEFAULT_POSTGRES_MAJOR, startPostgres } from "../postgres";
import { terraformSandbox } from "../terraform";
import { readEvidence } from "./check/evidence";
import { type Expectation, judge } from "./check/judge";
import { CleanUp } from "./clean-up";
import type { Interrupts } from "./interrupts";
import { BUSY_CUSTOMER, burst, keepEnqueueing, MAIL, PROVIDER_API } from "./load";
import { Monitor } from "./monitor";
import type { StartOptions } from "./options";
import { Policies } from "./policies";
import type { Screen } from "./screen";
import { WorkerProcesses } from "./workers";

const QUICKSTART = resolve(__dirname, "../../../examples/quickstart");
const DATABASE = "workhorse";
const WORKERS = 3;

/** How long the queues are watched before and after the change: with --once briefly, else at leisure. */
const WATCH_MS = { once: { before: 10_000, after: 6_000 }, live: { before: 20_000, after: 12_000 } };

/**
 * Shows the product at work, step by step. Whatever it started is gone when it returns, or throws.
 *
 * @returns Whether everything that started was allowed to.
 * @throws {InterruptedError} If a signal ended it before all was shown, or with `once` at any time.
 */
export async function demonstrate(options: StartOptions, screen: Screen, interrupts: Interrupts): Promise<boolean> {
  const cleanUp = new CleanUp();
  const end = () => {
    screen.endTable({ keep: true });
    return screen.step("Stopping", () => cleanUp.run());
  };
  let allowed: boolean;
  try {
    allowed = await show(options, screen, interrupts, cleanUp);
  } catch (error) {
    // What went wrong first is the cause, and is thrown.
    await end().catch((also: unknown) => screen.print(`Stopping failed: ${String(also)}`));
    throw error;
  }
  await end();
  return allowed;
}

async function show(
  { once }: StartOptions,
  screen: Screen,
  interrupts: Interrupts,
  cleanUp: CleanUp,
): Promise<boolean> {
  const { signal, hurry } = interrupts;
  const watchMs = once ? WATCH_MS.once : WATCH_MS.live;

  const server = await screen.step(`Starting PostgreSQL ${DEFAULT_POSTGRES_MAJOR}`, () => startPostgres());
  const crash = () => void server.kill();
  hurry.addEventListener("abort", crash);
  cleanUp.add(async () => {
    if (hurry.aborted) await server.kill();
    await server.stop();
    hurry.removeEventListener("abort", crash);
  });
  signal.throwIfAborted();
  const url = server.urlFor(DATABASE);
  await createDatabase(server.url);
  const pool = new Pool({ connectionString: url, max: 4 });
  pool.on("error", () => {}); // the server is being stopped; a query that was under way rejects all the same
  cleanUp.add(() => pool.end());
  const queue = new Queue(pool);

  const terraform = await terraformSandbox({ env: { WORKHORSE_DATABASE_URL: url } });
  cleanUp.add(() => terraform.dispose());
  signal.throwIfAborted();
  const policies = new Policies(await terraform.workspace({}, { copyOf: QUICKSTART }), screen, interrupts);
  await policies.init();
  await policies.planAndApply();
  const declared = await persisted(pool, queue, 60);

  screen.print();
  const workers = await screen.step(`Starting ${WORKERS} worker processes`, () =>
    WorkerProcesses.start(WORKERS, url, screen),
  );
  cleanUp.add(() => workers.stop(hurry));
  signal.throwIfAborted();

  const jobs = burst();
  const enqueuedUs = await microseconds(pool, "SELECT clock_timestamp()");
  await screen.step(`Enqueueing ${jobs.length} jobs of 121 customers, those of ${BUSY_CUSTOMER} in front`, () =>
    queue.enqueueMany(jobs),
  );
  const background = new AbortController();
  const feeding = keepEnqueueing(pool, queue, background.signal);
  const monitor = new Monitor(pool, queue, screen);
  feeding.catch(() => {}); // it is waited for below
  cleanUp.add(async () => {
    background.abort();
    await Promise.allSettled([feeding, monitor.stop()]);
  });
  const failure = Promise.race([workers.failure, feeding, monitor.run()]) as Promise<never>;
  failure.catch(() => {});

  screen.print();
  await monitor.watch(watchMs.before, signal, failure);
  await policies.raiseLimit();
  await Promise.race([policies.planAndApply(), failure]);
  const raised = await persisted(pool, queue, 600);
  screen.print();
  await monitor.watch(watchMs.after, signal, failure);

  const expectation: Expectation = {
    rateLimit: { queue: PROVIDER_API, rates: [declared.rate, raised.rate], perKey: declared.perKey },
    cap: { queue: MAIL, ...declared.cap },
    busyKey: BUSY_CUSTOMER,
    enqueuedUs,
  };
  const allowed = await verdict(pool, expectation, screen);
  if (once) return allowed;
  screen.print(invitation(url, policies.folder, screen));
  await monitor.watch(undefined, signal, failure).catch((error: unknown) => {
    if (!signal.aborted) throw error; // Ctrl-C is how this ends
  });
  return allowed;
}

async function createDatabase(url: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(`CREATE DATABASE ${DATABASE}`);
  } finally {
    await client.end();
  }
}

/** What PostgreSQL holds after an apply: what is judged by. */
async function persisted(pool: Pool, queue: Queue, limit: number) {
  const [[rateLimit], [cap]] = await Promise.all([
    queue.listRateLimitPolicies([PROVIDER_API]),
    queue.listConcurrencyPolicies([MAIL]),
  ]);
  if (rateLimit?.rate.limit !== limit || !rateLimit.perKey || !cap?.maxActivePerKey) {
    const held = JSON.stringify({ rateLimit, cap });
    throw new Error(`Terraform was to declare ${limit} starts per minute; PostgreSQL holds ${held}`);
  }
  const fromUs = await microseconds(
    pool,
    "SELECT updated_at FROM workhorse.rate_limit_policy WHERE queue_name = $1",
    PROVIDER_API,
  );
  const since = (rate: Rate): RateFrom => ({ ...rate, fromUs });
  return {
    rate: since(rateLimit.rate),
    perKey: since(rateLimit.perKey),
    cap: { maxActive: cap.maxActive, maxActivePerKey: cap.maxActivePerKey },
  };
}

/** A time that PostgreSQL tells, in microseconds since 1970: a Date has milliseconds only. */
async function microseconds(pool: Pool, query: string, ...values: readonly string[]): Promise<bigint> {
  const { rows } = await pool.query<{ us: string }>(`SELECT (extract(epoch FROM (${query})) * 1000000)::bigint AS us`, [
    ...values,
  ]);
  return BigInt(rows[0]!.us);
}

/** Checks every start by what PostgreSQL recorded, and says so. */
async function verdict(pool: Pool, expectation: Expectation, screen: Screen): Promise<boolean> {
  const { bold, green, red } = screen.colors;
  const findings = judge(await readEvidence(pool), expectation);
  screen.print(`\n${bold("Checking every start by the time that PostgreSQL recorded")}\n`);
  for (const { ok, text } of findings) screen.print(`${ok ? green("ok") : red("NOT OK")}  ${text}`);
  screen.print();
  return findings.every(({ ok }) => ok);
}

function invitation(url: string, folder: string, { colors: { bold } }: Screen): string {
  return `${bold("It goes on until Ctrl-C. In another terminal, you may")}

change limits in main.tf, and see the workers follow:

  export WORKHORSE_DATABASE_URL='${url}'
  cd ${folder}
  terraform apply

look with any PostgreSQL client at that URL:

  SELECT * FROM workhorse.rate_limit_statuses_v1();

or, in this repository, with Node.js:

  node -e 'const { Pool } = require("pg");
    const { Queue } = require("@workhorse/queue");
    const connectionString = process.env.WORKHORSE_DATABASE_URL;
    const pool = new Pool({ connectionString, allowExitOnIdle: true });
    new Queue(pool).rateLimitStatuses().then(console.log)'
`;
}
