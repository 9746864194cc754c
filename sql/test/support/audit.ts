import { expect } from "@jest/globals";
import type { Rate, Started } from "./calls";

/**
 * Expects that no window of these starts has more than the rate allows: for each pair of starts, as many as lie between them,
 * both included, are at most burst + limit * time / interval. A start is dated by its claim's reading of the clock.
 */
export function expectWithinRate(starts: readonly Started[], { limit, intervalMs, burst }: Rate): void {
  const times = starts.map(({ started_us }) => started_us).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const intervalUs = BigInt(intervalMs) * 1000n;
  // count * interval - limit * time is largest over all pairs: keep the best beginning while going along.
  let best: bigint | undefined;
  let most = 0n;
  times.forEach((us, i) => {
    const before = BigInt(i) * intervalUs - BigInt(limit) * us;
    if (best === undefined || before < best) best = before;
    const excess = BigInt(i + 1) * intervalUs - BigInt(limit) * us - best;
    if (excess > most) most = excess;
  });
  expect(most).toBeLessThanOrEqual(BigInt(burst) * intervalUs);
}

/** Expects that no start of a job was given out twice. */
export function expectNoneTwice(starts: readonly Started[]): void {
  const seen = starts.map(({ id, fence_token }) => `${id} ${fence_token}`);
  expect(seen).toHaveLength(new Set(seen).size);
}

export function byKey(starts: readonly Started[]): Map<string | null, Started[]> {
  const groups = new Map<string | null, Started[]>();
  for (const start of starts) {
    groups.set(start.concurrency_key, [...(groups.get(start.concurrency_key) ?? []), start]);
  }
  return groups;
}
