import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { findExcess, type RateFrom } from "./bucket";

const S = 1_000_000n;
const perMinute = { fromUs: 0n, limit: 60, intervalMs: 60_000, burst: 3 };

/** The bound as it is written down, for every window: as fractions, exact. */
function naiveHasExcess(startsUs: readonly bigint[], [rate]: readonly [RateFrom]): boolean {
  const interval = BigInt(rate.intervalMs) * 1_000n;
  return startsUs.some((from, i) =>
    startsUs
      .slice(i)
      .some((to, n) => BigInt(n + 1) * interval > BigInt(rate.burst) * interval + BigInt(rate.limit) * (to - from)),
  );
}

describe("findExcess", () => {
  test("lets pass what the bucket gives, to the microsecond", () => {
    expect(findExcess([0n, 0n, 0n, 1n * S, 2n * S, 3n * S], [perMinute])).toBeUndefined();
    expect(findExcess([], [perMinute])).toBeUndefined();
    expect(findExcess([0n, 0n, 0n, S - 1n], [perMinute])).toEqual({ starts: 4, lengthUs: S - 1n, allowed: 3.99 });
  });

  test("names the window from which on there were too many", () => {
    const startsUs = [0n, 10n * S, 10n * S, 10n * S, 11n * S, 11n * S];
    expect(findExcess(startsUs, [perMinute])).toEqual({ starts: 5, lengthUs: S, allowed: 4 });
  });

  test("agrees with the bound of every window, whatever the rate", () => {
    const histories = fc.record({
      rate: fc.record({
        limit: fc.integer({ min: 1, max: 50 }),
        intervalMs: fc.integer({ min: 1, max: 2_000 }),
        burst: fc.integer({ min: 1, max: 5 }),
      }),
      gapsUs: fc.array(fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: 400_000n })), { maxLength: 30 }),
    });
    const seen = new Set<boolean>();
    fc.assert(
      fc.property(histories, ({ rate, gapsUs }) => {
        let at = 0n;
        const startsUs = gapsUs.map((gap) => {
          at += gap;
          return at;
        });
        const rates = [{ ...rate, fromUs: 0n }] as const;
        const excess = naiveHasExcess(startsUs, rates);
        seen.add(excess);
        expect(findExcess(startsUs, rates) !== undefined).toBe(excess);
      }),
      { numRuns: 500 },
    );
    expect(seen.size).toBe(2);
  });

  test("carries the balance through a change, cut to the new burst", () => {
    const faster = { ...perMinute, fromUs: 10n * S, limit: 600 };
    expect(findExcess([9n * S, 9n * S, 9n * S, 10n * S, 10n * S + S / 10n], [perMinute, faster])).toBeUndefined();
    expect(findExcess([9n * S, 9n * S, 9n * S, 9n * S + S / 10n], [perMinute, faster])).toMatchObject({ starts: 4 });
    // 1 token is left of 3, then 2 s at 10 a second come to the burst.
    const full = [9n * S, 9n * S, 12n * S, 12n * S, 12n * S];
    expect(findExcess(full, [perMinute, faster])).toBeUndefined();
    const smaller = { ...perMinute, fromUs: 10n * S, burst: 1 };
    expect(findExcess([10n * S, 10n * S], [perMinute, smaller])).toMatchObject({ starts: 2 });
    // A change long ago does not count again at each start.
    const larger = { ...perMinute, fromUs: 10n * S, burst: 8 };
    expect(
      findExcess(
        Array.from({ length: 8 }, () => 30n * S),
        [perMinute, larger],
      ),
    ).toBeUndefined();
  });
});
