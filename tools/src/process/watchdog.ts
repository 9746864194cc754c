import { spawn } from "node:child_process";
import { once } from "node:events";

/**
 * Reads "+ TARGET" and "- TARGET" until the end of its input, then signals the targets that are left, waits for them
 * (ten seconds: a dead process that nobody reaps still answers `kill -0`) and removes the folder.
 */
const SCRIPT = `
folder=$1 signal=$2 targets=
while read -r change target; do
  if [ "$change" = + ]; then targets="$targets $target"; continue; fi
  rest=
  for one in $targets; do [ "$one" = "$target" ] || rest="$rest $one"; done
  targets=$rest
done
for one in $targets; do kill -s "$signal" -- "$one" 2>/dev/null; done
tries=0
for one in $targets; do
  while kill -s 0 -- "$one" 2>/dev/null; do
    if [ $tries -ge 100 ]; then kill -s KILL -- "$one" 2>/dev/null; break; fi
    sleep 0.1; tries=$((tries + 1))
  done
done
tries=0
while [ -e "$folder" ] && [ $tries -lt 100 ]; do
  rm -rf "$folder" 2>/dev/null || { sleep 0.1; tries=$((tries + 1)); }
done
`;

/** A process that outlives this one just long enough to clear up after it, however this one ends. */
export interface Watchdog {
  /**
   * Names a process, or by a negative number a process group, to stop if this process dies; undefined is none.
   *
   * @returns What to call when it is gone.
   */
  guard(target: number | undefined): () => void;
  /** Ends the watch; what is still guarded is stopped then, and the folder removed. */
  end(): Promise<void>;
}

/**
 * Starts a watchdog over a folder. It notices the death of this process, by SIGKILL too, because the pipe between them
 * closes then. It has a session of its own, so that Ctrl-C does not reach it. Not for Windows.
 *
 * @param folder What it removes at the end.
 * @param signal What it stops processes by.
 */
export function startWatchdog(folder: string, signal: "QUIT" | "KILL"): Watchdog {
  const child = spawn("/bin/sh", ["-c", SCRIPT, "workhorse-watchdog", folder, signal], {
    cwd: "/",
    detached: true,
    // Whatever the PATH of this process is, the script finds its rm.
    env: { PATH: [process.env.PATH, "/usr/bin:/bin"].filter(Boolean).join(":") },
    stdio: ["pipe", "ignore", "ignore"],
  });
  const gone = once(child, "exit").then(
    () => undefined,
    () => undefined,
  );
  const input = child.stdin;
  input.on("error", () => {}); // the watchdog was killed: what it guards is still stopped by its owner
  // Neither keeps this process alive: a program that just ends takes what it guards with it.
  child.unref();
  (input as unknown as { unref(): void }).unref();
  return {
    guard: (target) => {
      if (target === undefined) {
        return () => {};
      }
      input.write(`+ ${target}\n`);
      let guarded = true;
      return () => {
        if (guarded && !input.writableEnded) {
          guarded = false;
          input.write(`- ${target}\n`);
        }
      };
    },
    end: () => {
      child.ref();
      input.end();
      return gone;
    },
  };
}
