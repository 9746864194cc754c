import { removeRun } from "./leaks";
import { currentRun } from "./run";

/** Fails the run if a test left a database or a role on the server, and leaves none itself. */
export default async function globalTeardown(): Promise<void> {
  try {
    const left = await removeRun(currentRun());
    if (left.length > 0) {
      throw new Error(`Tests left behind: ${left.join(", ")}. Each must call drop() on its testDatabase() at the end`);
    }
  } finally {
    await globalThis.workhorseTestServer?.stop();
  }
}
