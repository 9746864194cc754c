import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Screen } from "./screen";

const PROGRAM = join(__dirname, "worker-process.js");
/** A handler takes a second at most; what takes longer than this hangs. */
const STOP_TIMEOUT_MS = 10_000;

/** Worker processes, which end with this one at the latest. */
export class WorkerProcesses {
  /** Rejects when one of them ends that was not asked to. */
  readonly failure: Promise<never>;
  readonly #children: readonly Child[];
  #stopping = false;

  private constructor(count: number, url: string, screen: Screen) {
    let fail: (error: Error) => void = () => {};
    this.failure = new Promise((_, reject) => {
      fail = reject;
    });
    this.failure.catch(() => {}); // it may come while nobody waits for it
    this.#children = Array.from({ length: count }, (_, index) => {
      const child = start(url, screen);
      void child.exit.then((how) => {
        if (!this.#stopping) fail(new Error(`worker process ${index + 1} ended unasked: ${how}`));
      });
      return child;
    });
  }

  /** Starts them, and returns when all are about to claim. */
  static async start(count: number, url: string, screen: Screen): Promise<WorkerProcesses> {
    const workers = new WorkerProcesses(count, url, screen);
    try {
      await Promise.race([Promise.all(workers.#children.map(({ ready }) => ready)), workers.failure]);
      return workers;
    } catch (error) {
      await workers.stop(AbortSignal.abort());
      throw error;
    }
  }

  /** Lets them finish what they run; with `hurry`, kills them. */
  async stop(hurry: AbortSignal): Promise<void> {
    this.#stopping = true;
    const kill = () => {
      for (const { process: child } of this.#children) child.kill("SIGKILL");
    };
    const timer = setTimeout(kill, STOP_TIMEOUT_MS);
    hurry.addEventListener("abort", kill, { once: true });
    if (hurry.aborted) kill();
    for (const { process: child } of this.#children) {
      if (child.connected) child.send("stop", () => {}); // one that has just ended needs none
    }
    await Promise.all(this.#children.map(({ exit }) => exit));
    clearTimeout(timer);
    hurry.removeEventListener("abort", kill);
  }
}

interface Child {
  readonly process: ChildProcess;
  readonly ready: Promise<unknown>;
  /** Fulfilled with how it ended. */
  readonly exit: Promise<string>;
}

function start(url: string, screen: Screen): Child {
  const child = fork(PROGRAM, {
    // Of a session of its own: a Ctrl-C is for this process, which then stops the workers in order.
    detached: true,
    env: { ...process.env, WORKHORSE_DATABASE_URL: url },
    execArgv: [],
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  for (const output of [child.stdout!, child.stderr!]) {
    const lines = screen.stream();
    output.setEncoding("utf8").on("data", (text: string) => lines.write(text));
    output.on("end", () => lines.end());
  }
  const exit = once(child, "close").then(
    ([code, signal]) => (signal === null ? `status ${String(code)}` : String(signal)),
    (error: Error) => error.message,
  );
  const ready = once(child, "message");
  ready.catch(() => {}); // exit tells
  return { process: child, ready, exit };
}
