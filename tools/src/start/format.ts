import type { Rate } from "@workhorse/queue";

const PERIODS: ReadonlyMap<number, string> = new Map([
  [1_000, "s"],
  [60_000, "min"],
  [3_600_000, "h"],
  [86_400_000, "d"],
]);

/** A rate in short: 60 a minute with a burst of 10 is `60/min +10`. */
export function formatRate({ limit, intervalMs, burst }: Rate): string {
  return `${limit}/${PERIODS.get(intervalMs) ?? `${intervalMs} ms`} +${burst}`;
}
