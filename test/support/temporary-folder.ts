import { chmod, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startWatchdog } from "../../tools/src/process";

/** A folder for everything temporary that a run makes. */
export interface TemporaryFolder {
  /** Removes it, and returns the names of what was still in it. */
  remove(): Promise<string[]>;
}

/**
 * Makes a temporary folder that os.tmpdir() is from here on, in this process and those it starts. It goes even if this
 * process is killed, so that an interrupted run leaves nothing either.
 */
export async function useTemporaryFolder(): Promise<TemporaryFolder> {
  const folder = await mkdtemp(join(tmpdir(), "wh-")); // short: unix sockets lie below it
  const watchdog = startWatchdog(folder, "KILL");
  await chmod(folder, 0o755); // root's PostgreSQL runs as another account
  process.env.TMPDIR = folder;
  return {
    remove: async () => {
      const left = await readdir(folder);
      await rm(folder, { recursive: true, force: true });
      await watchdog.end();
      return left;
    },
  };
}
