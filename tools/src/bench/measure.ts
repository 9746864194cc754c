/** What one variant of a benchmark does in a round; resolves with the measure (say jobs per second). */
export interface Variant {
  readonly name: string;
  /** Runs before the clock starts, each round. */
  prepare?(): Promise<void>;
  measure(): Promise<number>;
}

/** Medians over the rounds, and the middle half of the ratios to the first variant. */
export interface Result {
  readonly name: string;
  readonly median: number;
  /** Median of the rounds' ratios to the first variant. */
  readonly ratio: number;
  readonly quartiles: readonly [number, number];
}

/** The value at a share (0 to 1) of a sorted copy. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const position = (sorted.length - 1) * share;
  const below = Math.floor(position);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below]! + (sorted[above]! - sorted[below]!) * (position - below);
}

/**
 * Measures the variants in turn, round by round, so that what the machine does besides hits them all alike. The order is
 * turned in every round. The first round warms up and does not count.
 */
export async function interleave(variants: readonly Variant[], rounds: number): Promise<Result[]> {
  const measured = variants.map((): number[] => []);
  for (let round = 0; round <= rounds; round += 1) {
    for (let turn = 0; turn < variants.length; turn += 1) {
      const index = (turn + round) % variants.length;
      const variant = variants[index]!;
      await variant.prepare?.();
      const value = await variant.measure();
      if (round > 0) measured[index]!.push(value);
    }
  }
  return variants.map(({ name }, index) => {
    const ratios = measured[index]!.map((value, round) => value / measured[0]![round]!);
    return {
      name,
      median: quantile(measured[index]!, 0.5),
      ratio: quantile(ratios, 0.5),
      quartiles: [quantile(ratios, 0.25), quantile(ratios, 0.75)],
    };
  });
}

/** Milliseconds that something takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = process.hrtime.bigint();
  await work();
  return Number(process.hrtime.bigint() - start) / 1e6;
}

/** Results as lines of a table. */
export function formatResults(unit: string, results: readonly Result[]): string {
  const width = Math.max(...results.map(({ name }) => name.length));
  return results
    .map(
      ({ name, median, ratio, quartiles }) =>
        `  ${name.padEnd(width)}  ${formatNumber(median).padStart(9)} ${unit}   ratio ${ratio.toFixed(2)}` +
        `  (middle half ${quartiles[0].toFixed(2)} to ${quartiles[1].toFixed(2)})`,
    )
    .join("\n");
}

function formatNumber(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString("en-US") : value.toFixed(1);
}
