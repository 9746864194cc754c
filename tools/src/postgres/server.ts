import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { appendFile, chown, mkdir, mkdtemp, open, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type ProcessResult, runProcess } from "../process/run";
import { startWatchdog, type Watchdog } from "../process/watchdog";
import { type Account, serverAccount, temporaryFolder } from "./account";
import { findBinaries, runnable } from "./binaries";
import { DEFAULT_POSTGRES_MAJOR } from "./versions";

const HOST = "127.0.0.1";
const SUPERUSER = "postgres";
/** Ports are picked before they are bound, so another program may be faster; so often in a row it is not by chance. */
const PORT_ATTEMPTS = 20;
const START_TIMEOUT_MS = 60_000;
const POLL_MS = 20;
/** A fast stop has to write a checkpoint; after this time the server is stopped at once. */
const FAST_STOP_TIMEOUT_MS = 20_000;
const IMMEDIATE_STOP_TIMEOUT_MS = 10_000;
/** The longest path of a unix socket that every system takes (macOS: 103 bytes and a NUL). */
const SOCKET_PATH_BYTES = 103;

export interface PostgresOptions {
  /** A folder with PostgreSQL's `bin`, `lib` and `share`. Default: those of the npm package for `major`. */
  readonly binaries?: string;
  /** The major version, 15 to 18. Default: 18. Ignored if `binaries` is given. */
  readonly major?: number;
  /** Lines for postgresql.conf, by name; the last word over the defaults. */
  readonly settings?: Readonly<Record<string, string>>;
  /**
   * Whether commits survive a crash of the machine. Default: false, for tests: a crash of the server alone (`kill`)
   * loses nothing either way. Benchmarks set it, for with it the disk takes the part that it takes in production.
   */
  readonly durable?: boolean;
}

/** A PostgreSQL server with a fresh cluster, for as long as this process lives at most. */
export interface PostgresServer {
  /** The superuser's URL of the database `postgres`. Holds the password. */
  readonly url: string;
  /** 127.0.0.1: the server listens nowhere else. */
  readonly host: string;
  readonly port: number;
  /** The folder of the server's unix socket; undefined where the path would be too long for one. */
  readonly socketDirectory: string | undefined;
  readonly major: number;
  /** The version in full, such as `18.4`. */
  readonly version: string;
  /** The superuser's password. */
  readonly password: string;
  /** The id of the server's main process; undefined while it is not running. */
  readonly pid: number | undefined;
  /** A URL of any database, the superuser's unless another role is named. */
  urlFor(database: string, user?: string, password?: string): string;
  /** Crashes the server: it stops at once, clients are cut off, nothing is written. `restart` recovers it. */
  kill(): Promise<void>;
  /** Starts the server again on the same port and data, after stopping it in good order if it runs. */
  restart(): Promise<void>;
  /** Stops the server and removes all it had. Calling it again is fine. */
  stop(): Promise<void>;
}

/**
 * Starts a PostgreSQL server on a free port of 127.0.0.1, with a random password and its data in a temporary folder.
 * Works as any user, as root through an existing unprivileged account. If this process dies, however it does, the
 * server stops and its folder goes too. Not for Windows.
 *
 * @throws {Error} If the server cannot be started; the message holds the end of its log.
 */
export function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  return startPostgresOn(freePort, options);
}

/** {@link startPostgres} with a choice of ports, for tests: it is asked again when another program took the one it gave. */
export async function startPostgresOn(
  pickPort: () => Promise<number>,
  options: PostgresOptions = {},
): Promise<PostgresServer> {
  if (process.platform === "win32") {
    throw new Error("The embedded PostgreSQL does not run on Windows: use a server of your own by its URL");
  }
  const account = await serverAccount();
  const source = options.binaries ?? (await findBinaries(options.major ?? DEFAULT_POSTGRES_MAJOR));
  const folder = await mkdtemp(join(await temporaryFolder(account), "workhorse-pg-"));
  const watchdog = startWatchdog(folder, "QUIT");
  const password = randomBytes(24).toString("base64url");
  try {
    await own(folder, account);
    const binaries = await runnable(source, account, join(folder, "postgres"));
    const cluster: Cluster = { binaries, folder, account, watchdog };
    const version = await initialise(cluster, password, options);
    const server = new EmbeddedPostgres(cluster, password, version);
    await server.start(pickPort);
    return server;
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    await watchdog.end();
    throw error;
  }
}

/** Where a cluster lies and who runs it. */
interface Cluster {
  readonly binaries: string;
  readonly folder: string;
  readonly account: Account | undefined;
  readonly watchdog: Watchdog;
}

/** Where the server's processes run, and with what. */
function surroundings({ folder }: Cluster) {
  return { cwd: folder, env: { PATH: process.env.PATH ?? "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" } };
}

/** Runs one of PostgreSQL's programs to its end. */
async function run(cluster: Cluster, program: string, args: readonly string[]): Promise<ProcessResult> {
  const { account, binaries, watchdog } = cluster;
  let unguard = () => {};
  const result = await runProcess(join(binaries, "bin", program), args, {
    ...surroundings(cluster),
    account,
    onStart: (pid) => {
      // The program alone: initdb's server, killed directly, would leave shared memory; without initdb it ends in order.
      unguard = watchdog.guard(pid);
    },
  }).finally(() => unguard());
  if (result.code !== 0) {
    const end = result.endedBy ?? `status ${result.code}`;
    throw new Error(`${program} failed (${end}): ${result.stderr.trim() || result.stdout.trim()}`);
  }
  return result;
}

/** Makes the cluster's files; returns the server's version. */
async function initialise(cluster: Cluster, password: string, options: PostgresOptions): Promise<string> {
  const { folder, account } = cluster;
  const passwordFile = join(folder, "password");
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  await mkdir(join(folder, "socket"), { mode: 0o700 });
  await own(passwordFile, account);
  await own(join(folder, "socket"), account);
  // C.UTF-8 sorts by code point and is there without a language pack, but not on every macOS.
  const locale = process.platform === "darwin" ? "C" : "C.UTF-8";
  try {
    await run(cluster, "initdb", [
      ...["-D", join(folder, "data"), "-U", SUPERUSER, "-A", "scram-sha-256", `--pwfile=${passwordFile}`],
      ...["-E", "UTF8", `--locale=${locale}`, "--lc-messages=C", "--no-sync", "--no-instructions"],
    ]);
  } finally {
    await rm(passwordFile, { force: true });
  }
  const socket = socketDirectory(folder);
  const settings: Record<string, string> = {
    listen_addresses: HOST,
    unix_socket_directories: socket ?? "",
    max_connections: "200",
    timezone: "UTC",
    log_timezone: "UTC",
    // No synchronous_commit = off: a commit must survive kill(), which it does once the system has it.
    ...(options.durable ? {} : { fsync: "off", full_page_writes: "off" }),
    ...options.settings,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value.replace(/['\\]/g, "$&$&")}'\n`);
  await appendFile(join(folder, "data", "postgresql.conf"), lines.join(""));
  const { stdout } = await run(cluster, "postgres", ["--version"]);
  return stdout.trim().split(" ").at(2) ?? stdout.trim();
}

function socketDirectory(folder: string): string | undefined {
  const directory = join(folder, "socket");
  return Buffer.byteLength(join(directory, ".s.PGSQL.65535")) <= SOCKET_PATH_BYTES ? directory : undefined;
}

class EmbeddedPostgres implements PostgresServer {
  readonly host = HOST;
  readonly socketDirectory: string | undefined;
  readonly major: number;
  port = 0;
  #process: ServerProcess | undefined;
  #stopped: Promise<void> | undefined;

  constructor(
    private readonly cluster: Cluster,
    readonly password: string,
    readonly version: string,
  ) {
    this.major = Number.parseInt(version, 10);
    this.socketDirectory = socketDirectory(cluster.folder);
  }

  get url(): string {
    return this.urlFor("postgres");
  }

  get pid(): number | undefined {
    return this.#process?.child.pid;
  }

  urlFor(database: string, user = SUPERUSER, password = user === SUPERUSER ? this.password : ""): string {
    const credentials = [user, password].map(encodeURIComponent).join(":");
    return `postgres://${credentials}@${this.host}:${this.port}/${encodeURIComponent(database)}`;
  }

  async start(pickPort: () => Promise<number>): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      this.port = await pickPort();
      try {
        return await this.#launch();
      } catch (error) {
        if (!(error instanceof PortTakenError) || attempt === PORT_ATTEMPTS) {
          throw error;
        }
      }
    }
  }

  async kill(): Promise<void> {
    // SIGQUIT is PostgreSQL's "stop at once": a crash to data and clients, but one that leaves no shared memory behind.
    await this.#end("SIGQUIT", IMMEDIATE_STOP_TIMEOUT_MS);
  }

  async restart(): Promise<void> {
    if (this.#stopped) {
      throw new Error("This PostgreSQL was stopped and its data removed: start another one");
    }
    await this.#end("SIGINT", FAST_STOP_TIMEOUT_MS);
    await this.#launch();
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#remove();
    return this.#stopped;
  }

  async #remove(): Promise<void> {
    await this.#end("SIGINT", FAST_STOP_TIMEOUT_MS);
    await rm(this.cluster.folder, { recursive: true, force: true });
    await this.cluster.watchdog.end();
  }

  async #launch(): Promise<void> {
    const { account, binaries, folder, watchdog } = this.cluster;
    const log = await open(join(folder, "log"), "a", 0o600);
    try {
      const args = ["-D", join(folder, "data"), "-p", String(this.port)];
      const child = spawn(join(binaries, "bin", "postgres"), args, {
        ...account,
        ...surroundings(this.cluster),
        detached: true, // a session of its own: Ctrl-C does not reach it
        stdio: ["ignore", log.fd, log.fd],
      });
      const logged = (await log.stat()).size;
      // "error" instead of "exit": there is no process, because the system could not start one.
      const exit = once(child, "exit").then(
        () => true as const,
        () => true as const,
      );
      const started: ServerProcess = { child, exit, unguard: watchdog.guard(child.pid) };
      this.#process = started;
      void exit.then(() => this.#forget(started));
      const deadline = performance.now() + START_TIMEOUT_MS;
      while (!(await this.#isReady(child))) {
        const dead = await Promise.race([exit, delay(POLL_MS, false)]);
        if (dead || performance.now() > deadline) {
          await this.#end("SIGQUIT", IMMEDIATE_STOP_TIMEOUT_MS);
          throw await this.#startError(logged, dead ? "ended" : `was not ready after ${START_TIMEOUT_MS / 1000} s`);
        }
      }
      child.unref(); // a program that just ends takes its server with it, by the watchdog
    } finally {
      await log.close();
    }
  }

  /** Whether this very server takes connections: it says so on the last line of its lock file, as pg_ctl reads it too. */
  async #isReady(child: ChildProcess): Promise<boolean> {
    const text = await readFile(join(this.cluster.folder, "data", "postmaster.pid"), "utf8").catch(() => "");
    const lines = text.split("\n");
    return lines[0] === String(child.pid) && lines[7]?.trim() === "ready";
  }

  async #startError(logged: number, what: string): Promise<Error> {
    const log = (await readFile(join(this.cluster.folder, "log"))).subarray(logged).toString("utf8").trim();
    if (/could not bind IPv4 address/.test(log)) {
      return new PortTakenError(`Port ${this.port} of ${HOST} was taken by another program`);
    }
    return new Error(`PostgreSQL ${this.version} ${what} at its start. Its log:\n${log.slice(-4000)}`);
  }

  /** Ends the process, if there is one, by ever harder means. */
  async #end(signal: "SIGINT" | "SIGQUIT", timeoutMs: number): Promise<void> {
    const running = this.#process;
    if (running === undefined) {
      return;
    }
    running.child.ref();
    const steps = [
      [signal, timeoutMs],
      ["SIGQUIT", IMMEDIATE_STOP_TIMEOUT_MS],
      ["SIGKILL", IMMEDIATE_STOP_TIMEOUT_MS],
    ] as const;
    for (const [step, patienceMs] of steps) {
      running.child.kill(step);
      const timer = new AbortController();
      const patience = delay(patienceMs, false, { signal: timer.signal }).catch(() => false);
      const ended = await Promise.race([running.exit, patience]);
      timer.abort();
      if (ended) {
        break;
      }
    }
    this.#forget(running);
  }

  #forget(ended: ServerProcess): void {
    ended.unguard();
    if (this.#process === ended) {
      this.#process = undefined;
    }
  }
}

interface ServerProcess {
  readonly child: ChildProcess;
  /** Fulfilled with true when the process is gone. */
  readonly exit: Promise<true>;
  readonly unguard: () => void;
}

class PortTakenError extends Error {
  override readonly name = "PortTakenError";
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, HOST);
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") {
    throw new Error(`No free port on ${HOST}`);
  }
  return address.port;
}

async function own(path: string, account: Account | undefined): Promise<void> {
  if (account !== undefined) {
    await chown(path, account.uid, account.gid);
  }
}
