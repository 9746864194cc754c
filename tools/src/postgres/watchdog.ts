import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

/**
 * Waits for the end of its input, then stops the process last named there and removes the folder. PostgreSQL takes
 * SIGQUIT as "stop at once", and then removes its shared memory, which SIGKILL would leave behind. A dead process that
 * nobody has reaped still answers `kill -0`, hence the look at postmaster.pid.
 */
const SCRIPT = `
pid=0
while read -r line; do pid=$line; done
tries=0
if [ "$pid" != 0 ] && kill -QUIT "$pid" 2>/dev/null; then
  while kill -0 "$pid" 2>/dev/null && [ -e "$1/data/postmaster.pid" ] && [ $tries -lt 100 ]; do
    sleep 0.1; tries=$((tries + 1))
  done
  [ $tries -lt 100 ] || kill -KILL "$pid" 2>/dev/null
fi
tries=0
while [ -e "$1" ] && [ $tries -lt 100 ]; do
  rm -rf "$1" 2>/dev/null || { sleep 0.1; tries=$((tries + 1)); }
done
`;

/** A process that outlives this one just long enough to clear up after it, however this one ends. */
export interface Watchdog {
  /** Names the process to stop if this one dies; undefined when there is none. */
  guard(pid: number | undefined): void;
  /** Ends the watch; what it guards is then stopped and removed if it still is there. */
  end(): Promise<void>;
}

/**
 * Starts a watchdog over a folder. It notices the death of this process, by SIGKILL too, because the pipe between them
 * closes then. It is in a session of its own, so that Ctrl-C does not reach it.
 */
export function startWatchdog(folder: string): Watchdog {
  const child: ChildProcess = spawn("/bin/sh", ["-c", SCRIPT, "workhorse-watchdog", folder], {
    cwd: "/",
    detached: true,
    env: { PATH: process.env.PATH ?? "/usr/bin:/bin" },
    stdio: ["pipe", "ignore", "ignore"],
  });
  const gone = once(child, "exit").then(
    () => undefined,
    () => undefined,
  );
  const input = child.stdin!;
  input.on("error", () => {}); // the watchdog was killed: what it guards is still stopped by its owner
  // Neither keeps this process alive: a program that just ends takes its server with it.
  child.unref();
  (input as unknown as { unref(): void }).unref();
  return {
    guard: (pid) => void input.write(`${pid ?? 0}\n`),
    end: () => {
      child.ref();
      input.end();
      return gone;
    },
  };
}
