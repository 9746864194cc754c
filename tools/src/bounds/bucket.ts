/** A rate from some time on. */
export interface RateFrom {
  /** Microseconds since 1970, by PostgreSQL's clock. */
  readonly fromUs: bigint;
  readonly limit: number;
  readonly intervalMs: number;
  readonly burst: number;
}

/** A window in which more started than the rate allows. */
export interface Excess {
  readonly starts: number;
  /** From the first of these starts to the last, in microseconds. */
  readonly lengthUs: bigint;
  /** What the window allows: burst + limit * length / interval, rounded down to a hundredth. */
  readonly allowed: number;
}

/**
 * Looks for a window, however long, in which more jobs started than `burst + limit * length / interval`; across a change of
 * the rate, what the window allows is the burst at its beginning and what each rate adds in its part.
 *
 * One pass finds it: the starts of every window are within bounds exactly if a bucket that is full at first never runs dry.
 * All in integers, so that nothing is rounded.
 *
 * @param startsUs When jobs started, ascending, none before the first rate.
 * @param rates By time, at least one.
 */
export function findExcess(startsUs: readonly bigint[], rates: readonly RateFrom[]): Excess | undefined {
  const first = rates[0]!;
  const unit = rates.map(({ intervalMs }) => intervalUs(intervalMs)).reduce(leastCommonMultiple);
  let tokens = BigInt(first.burst) * unit;
  let [atUs, windowUs, starts] = [first.fromUs, first.fromUs, 0];
  for (const startUs of startsUs) {
    let rate = first;
    for (const [index, each] of rates.entries()) {
      const endUs = rates[index + 1]?.fromUs;
      if (each.fromUs > startUs) break;
      if (endUs !== undefined && endUs <= atUs) continue;
      rate = each;
      const burst = BigInt(rate.burst) * unit;
      const elapsedUs = smaller(endUs ?? startUs, startUs) - larger(atUs, rate.fromUs);
      tokens = smaller(tokens, burst); // a new, smaller burst cuts the balance
      tokens = smaller(tokens + (BigInt(rate.limit) * unit * elapsedUs) / intervalUs(rate.intervalMs), burst);
    }
    atUs = startUs;
    if (tokens === BigInt(rate.burst) * unit) [windowUs, starts] = [startUs, 0];
    starts += 1;
    tokens -= unit;
    if (tokens < 0n) {
      const allowed = BigInt(starts) * unit + tokens;
      return { starts, lengthUs: startUs - windowUs, allowed: Number((allowed * 100n) / unit) / 100 };
    }
  }
  return undefined;
}

/** What a rate allows in a time that begins with a full bucket: burst + limit * time / interval. */
export function allowance(rate: RateFrom, timeUs: bigint): number {
  return rate.burst + (rate.limit * Number(timeUs)) / Number(intervalUs(rate.intervalMs));
}

const intervalUs = (intervalMs: number): bigint => BigInt(intervalMs) * 1_000n;
const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);
const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b);

function leastCommonMultiple(a: bigint, b: bigint): bigint {
  let [x, y] = [a, b];
  while (y !== 0n) [x, y] = [y, x % y];
  return (a / x) * b;
}
