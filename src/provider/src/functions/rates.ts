import { bounds } from "@workhorse/sql";
import { defineFunction, FunctionError, type ProviderFunction, t } from "../framework";
import { rateType } from "../policies/rate-limits";

function per(unit: string, intervalMs: number): ProviderFunction {
  return defineFunction({
    name: `per_${unit}`,
    summary: `A rate of n starts per ${unit}`,
    description: `Makes a \`rate\` object: \`limit = n\`, \`interval_ms = ${intervalMs}\`, and the burst given.`,
    parameters: [
      { name: "n", type: t.integer, description: `Starts per ${unit}, 1 to 1,000,000.` },
      { name: "burst", type: t.integer, description: "Starts that an idle time saves up at most, 1 to 1,000,000." },
    ],
    returns: rateType,
    run([n, burst]) {
      check("n", n, bounds.rateLimit, 0);
      check("burst", burst, bounds.rateBurst, 1);
      return { limit: n, interval_ms: intervalMs, burst };
    },
  });
}

function check(name: string, value: number, { min, max }: { min: number; max: number }, argument: number): void {
  if (value >= min && value <= max) return;
  const accepted = `a whole number from ${min.toLocaleString("en-US")} to ${max.toLocaleString("en-US")}`;
  throw new FunctionError(`${name}: got ${value}; accepted is ${accepted}.`, argument);
}

export const perSecond = per("second", 1_000);
export const perMinute = per("minute", 60_000);
export const perHour = per("hour", 3_600_000);
export const perDay = per("day", 86_400_000);
