import { type ChildProcessByStdio, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { promisify, stripVTControlCharacters } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { isRunning } from "@workhorse/tools";
import { eventually } from "./support/eventually";
import { fences, readReadme, shape } from "./support/markdown";
import { REPOSITORY } from "./support/repository";

const PROGRAM = join(REPOSITORY, "tools/dist/start/main.js");
const TIMEOUT_MS = 150_000;

/** What it says that it does, in this order. */
const STEPS = [
  "Starting PostgreSQL 18 ... ",
  "terraform init ... ",
  "\nterraform plan\n",
  "Plan: 3 to add, 0 to change, 0 to destroy.",
  "\nterraform apply\n",
  "Apply complete! Resources: 3 added, 0 changed, 0 destroyed.",
  "Starting 3 worker processes ... ",
  "Enqueueing 560 jobs of 121 customers, those of acme in front ... ",
  "provider-api, 60/min +10: started ",
  "Changing a limit in main.tf",
  "-      rate    = { limit = 60, interval_ms = 60000, burst = 10 }",
  "+      rate    = { limit = 600, interval_ms = 60000, burst = 10 }",
  "limit       = 60 -> 600",
  "Plan: 0 to add, 1 to change, 0 to destroy.",
  "Apply complete! Resources: 0 added, 1 changed, 0 destroyed.",
  "provider-api, 600/min +10: started ",
  "Checking every start by the time that PostgreSQL recorded",
  "\nStopping ... ",
];

describe("npm start", () => {
  let folder: string;
  let run: Run;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "s-"));
    await chmod(folder, 0o755); // root's PostgreSQL runs as another account
  });
  afterEach(async () => {
    await run.kill();
    await rm(folder, { recursive: true, force: true });
  });

  test(
    "-- --once shows every step, finds that all kept to the policies, and leaves nothing",
    async () => {
      run = new Run(["--once"], folder);
      await run.output(/Starting 3 worker processes \.\.\. [\d.]+ s\n/);
      const processes = await descendants(run.pid);
      expect(processes.length).toBeGreaterThanOrEqual(4); // PostgreSQL and the workers at least
      const status = await run.end();
      expect({ status, errors: run.errors, text: run.text }).toEqual({
        status: 0,
        errors: "",
        text: expect.stringMatching(/Stopping \.\.\. [\d.]+ s\n$/),
      });
      let at = 0;
      for (const step of STEPS) {
        const found = run.text.indexOf(step, at);
        expect([step, found >= at]).toEqual([step, true]);
        at = found + step.length;
      }
      expect(run.text.match(/^ok {2}.*$/gm)).toHaveLength(7);
      const shapes = new Set(run.text.split("\n").map(shape));
      const quoted = fences(readReadme("README.md"), "text")[0]!.split("\n");
      expect(quoted.filter((line) => !shapes.has(shape(line)))).toEqual([]);
      expect(run.text).not.toMatch(/NOT OK|postgres:\/\//);
      expect(run.text).toBe(stripVTControlCharacters(run.text));
      await expectNothingLeft(processes, folder);
    },
    TIMEOUT_MS,
  );

  test(
    "goes when it is told to while Terraform runs, and leaves nothing",
    async () => {
      run = new Run([], folder);
      await run.output(/\nterraform plan\n/);
      const processes = await descendants(run.pid);
      expect(processes.length).toBeGreaterThanOrEqual(1);
      run.signal("SIGTERM");
      expect([await run.end(), run.errors]).toEqual([143, ""]);
      expect(run.text).toMatch(/Stopping \.\.\. [\d.]+ s\n$/);
      await expectNothingLeft(processes, folder);
    },
    TIMEOUT_MS,
  );

  test(
    "Ctrl-C, which a terminal sends to all its processes, ends it quietly while the server's files are made",
    async () => {
      run = new Run([], folder);
      await eventually("initdb to work", async () => {
        const [server] = await readdir(folder);
        return server !== undefined && existsSync(join(folder, server, "data"));
      });
      run.ctrlC();
      expect([await run.end(), run.errors, run.text]).toEqual([
        0,
        "",
        expect.stringMatching(/^Starting PostgreSQL 18 \.\.\. [\d.]+ s\nStopping \.\.\. [\d.]+ s\n$/),
      ]);
      expect(await readdir(folder)).toEqual([]);
    },
    TIMEOUT_MS,
  );

  test(
    "leaves nothing when it is killed",
    async () => {
      run = new Run([], folder);
      await run.output(/Enqueueing .*\n/);
      const processes = await descendants(run.pid);
      expect(processes.length).toBeGreaterThanOrEqual(4);
      await run.kill();
      await eventually("the watchdogs to clear up", async () => {
        const running = await Promise.all(processes.map(isRunning));
        return !running.includes(true) && (await readdir(folder)).length === 0;
      });
    },
    TIMEOUT_MS,
  );

  test("refuses what it does not know", async () => {
    run = new Run(["--twice"], folder);
    expect([await run.end(), run.text]).toEqual([2, ""]);
    expect(run.errors).toMatch(
      /^npm start: unknown option "--twice"; accepted are --once and --help\n\nUsage: npm start/,
    );
  });
});

async function expectNothingLeft(processes: readonly number[], folder: string): Promise<void> {
  const running = await Promise.all(processes.map(isRunning));
  expect(processes.filter((_, index) => running[index])).toEqual([]);
  expect(await readdir(folder)).toEqual([]);
}

/** The program, run with a temporary folder of its own. */
class Run {
  text = "";
  errors = "";
  readonly #child: ChildProcessByStdio<null, Readable, Readable>;
  readonly #closed: Promise<unknown>;

  constructor(args: readonly string[], folder: string) {
    const { NO_COLOR: _, FORCE_COLOR: __, ...env } = process.env;
    this.#child = spawn(process.execPath, [PROGRAM, ...args], {
      env: { ...env, TMPDIR: folder },
      detached: true, // a process group of its own, as a terminal's command has
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#closed = once(this.#child, "close");
    this.#child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.text += text;
    });
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.errors += text;
    });
  }

  get pid(): number {
    return this.#child.pid!;
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  ctrlC(): void {
    process.kill(-this.pid, "SIGINT");
  }

  /** Waits until it has said something. */
  async output(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.text)) {
      if (this.#child.stdout.readableEnded) throw new Error(`It ended before ${pattern}: ${this.text}${this.errors}`);
      await Promise.race([once(this.#child.stdout, "data"), this.#closed]);
    }
  }

  /** Waits for its end, and returns its status. */
  async end(): Promise<number | null> {
    await this.#closed;
    return this.#child.exitCode;
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#closed;
  }
}

/** The processes that a process started, and those that these did. */
async function descendants(pid: number): Promise<number[]> {
  const pairs = await (process.platform === "linux" ? parentsFromProc() : parentsFromPs());
  const below = (parent: number): number[] =>
    pairs.filter(([, ppid]) => ppid === parent).flatMap(([child]) => [child, ...below(child)]);
  return below(pid);
}

async function parentsFromProc(): Promise<[pid: number, ppid: number][]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const stats = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")));
  // "pid (name) state parent ...", where the name may hold anything
  return stats.map((stat, n) => [Number(pids[n]), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1])]);
}

async function parentsFromPs(): Promise<[pid: number, ppid: number][]> {
  const { stdout } = await promisify(execFile)("ps", ["-A", "-o", "pid=,ppid="]);
  return stdout
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number) as [number, number]);
}
