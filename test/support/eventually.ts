import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 20;

/**
 * Waits until something outside of this process, which sends no signal, has come about.
 *
 * @param what What is waited for, for the error.
 * @param timeoutMs Default: 30,000.
 * @throws {Error} If it has not come about in that time.
 */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 30_000,
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > deadline) {
      throw new Error(`Waited ${timeoutMs} ms in vain for: ${what}`);
    }
    await delay(POLL_MS);
  }
}
