import { spawn } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";

const GROUP_POLL_MS = 20;

export interface ProcessOptions {
  readonly cwd: string;
  /** The whole environment: nothing is inherited. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whom it runs as, by the numbers of the account. Default: whoever this process runs as. */
  readonly account?: { readonly uid: number; readonly gid: number } | undefined;
  /** What the process reads. Default: nothing, its input is closed. */
  readonly input?: string | undefined;
  /** Kills the process and its descendants at once; the result rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Sends SIGINT to the process and its descendants, as Ctrl-C in a terminal does. */
  readonly interrupt?: AbortSignal | undefined;
  /** Called with each piece of output as it comes, terminal codes included. */
  readonly onOutput?: ((text: string) => void) | undefined;
  /** Called with the process group's id once it runs. */
  readonly onStart?: ((group: number) => void) | undefined;
}

export interface ProcessResult {
  /** The exit status; null if a signal ended the process. */
  readonly code: number | null;
  /** What ended the process, if a signal did. */
  readonly endedBy: NodeJS.Signals | null;
  /** Without terminal codes, as are the other texts. */
  readonly stdout: string;
  readonly stderr: string;
  /** Both, in the order of their arrival. */
  readonly all: string;
}

/**
 * Runs a program in a process group of its own and collects its output. A failure is a result, not an error.
 *
 * @throws {Error} If the program cannot be started, or the reason of `signal`.
 */
export async function runProcess(
  file: string,
  args: readonly string[],
  options: ProcessOptions,
): Promise<ProcessResult> {
  options.signal?.throwIfAborted();
  const { cwd, env, account, signal, interrupt } = options;
  const child = spawn(file, args, { ...account, cwd, env: { ...env }, detached: true, stdio: "pipe" });
  const stdout: string[] = [];
  const stderr: string[] = [];
  const all: string[] = [];
  for (const [stream, own] of [
    [child.stdout, stdout],
    [child.stderr, stderr],
  ] as const) {
    stream.setEncoding("utf8");
    stream.on("data", (text: string) => {
      own.push(text);
      all.push(text);
      options.onOutput?.(text);
    });
  }
  child.stdin.on("error", () => {}); // the program did not want its input
  child.stdin.end(options.input ?? "");
  const kill = () => signalGroup(child.pid, "SIGKILL");
  const stop = () => signalGroup(child.pid, "SIGINT");
  try {
    const { code, endedBy } = await new Promise<Pick<ProcessResult, "code" | "endedBy">>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code, endedBy) => resolve({ code, endedBy }));
      child.once("spawn", () => {
        options.onStart?.(child.pid!);
        signal?.addEventListener("abort", kill, { once: true });
        interrupt?.addEventListener("abort", stop, { once: true });
        if (signal?.aborted) {
          kill();
        }
        if (interrupt?.aborted) {
          stop();
        }
      });
    });
    signal?.throwIfAborted();
    const text = (pieces: readonly string[]) => stripVTControlCharacters(pieces.join(""));
    return { code, endedBy, stdout: text(stdout), stderr: text(stderr), all: text(all) };
  } finally {
    signal?.removeEventListener("abort", kill);
    interrupt?.removeEventListener("abort", stop);
  }
}

/** Signals every process of a group; false if there is none. */
export function signalGroup(group: number | undefined, signal: NodeJS.Signals): boolean {
  return group !== undefined && send(-group, signal);
}

/** Whether a process runs. One that is dead but not yet reaped by its parent does not. */
export async function isRunning(pid: number): Promise<boolean> {
  if (!send(pid, 0)) {
    return false;
  }
  return process.platform !== "linux" || ((await processStatus(pid))?.running ?? false);
}

/** Whether any process of a group runs. */
export async function isGroupRunning(group: number): Promise<boolean> {
  if (!send(-group, 0)) {
    return false;
  }
  if (process.platform !== "linux") {
    return true;
  }
  // The first process of a container often reaps late, or never.
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const members = await Promise.all(pids.map((pid) => processStatus(Number(pid))));
  return members.some((status) => status?.group === group && status.running);
}

/**
 * Waits until no process of a group runs, then kills what is left of it.
 *
 * @returns Whether something had to be killed.
 */
export async function drainGroup(group: number, patienceMs: number): Promise<boolean> {
  const deadline = performance.now() + patienceMs;
  while (await isGroupRunning(group)) {
    if (performance.now() > deadline) {
      signalGroup(group, "SIGKILL");
      return true;
    }
    await delay(GROUP_POLL_MS);
  }
  return false;
}

function send(target: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(target, signal);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EPERM") {
      return true; // it is there, and another user's
    }
    if (code === "ESRCH") {
      return false;
    }
    throw error;
  }
}

/** Linux: what /proc says of a process; undefined if there is none. */
async function processStatus(pid: number): Promise<{ running: boolean; group: number } | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  // "pid (name) state parent group ...", where the name may hold anything
  const [state, , group] = text?.slice(text.lastIndexOf(")") + 2).split(" ") ?? [];
  return state === undefined ? undefined : { running: state !== "Z" && state !== "X", group: Number(group) };
}
