/** A time in which something ran, in microseconds. */
export interface Period {
  readonly fromUs: bigint;
  /** Excluded: what begins when another ends is not beside it. */
  readonly toUs: bigint;
}

/** How many ran at once, at most. */
export function mostAtOnce(periods: readonly Period[]): number {
  const changes = periods.flatMap(({ fromUs, toUs }) => [
    { atUs: fromUs, by: 1 },
    { atUs: toUs, by: -1 },
  ]);
  changes.sort((a, b) => (a.atUs === b.atUs ? a.by - b.by : a.atUs < b.atUs ? -1 : 1));
  let [running, most] = [0, 0];
  for (const { by } of changes) {
    running += by;
    most = Math.max(most, running);
  }
  return most;
}
