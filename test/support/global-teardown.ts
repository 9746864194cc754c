import { removeRun } from "./leaks";
import { currentRun } from "./run";

/** Fails the run if its tests left databases, roles or temporary files, and leaves none itself. */
export default async function globalTeardown(): Promise<void> {
  const { server, temporary } = globalThis.workhorseTestRun;
  const left: string[] = [];
  try {
    left.push(...(await removeRun(currentRun())));
  } finally {
    await server?.stop();
    left.push(...(await temporary.remove()).map((name) => `temporary ${name}`));
  }
  if (left.length > 0) {
    throw new Error(
      `Tests left behind: ${left.join(", ")}. Each test ends what it began: drop(), dispose(), stop(), rm`,
    );
  }
}
