import { join } from "node:path";
import { type HammerReport, hammer, type Scenario, scenarios } from "../hammer";
import type { Suite } from "./suite";

const seconds = 60;
const majors = [15, 18];
const program = join(__dirname, "../hammer/worker-process.js");

export const hammerSuite: Suite = {
  name: "hammer",
  about:
    "a minute of eight processes on each kind of limit, with crashes, on PostgreSQL 15 and 18: faults and shortfall",
  async run({ print }) {
    print(`${seconds} s each; shortfall: what of the starts that the rate allows was missed, outages left out`);
    for (const major of majors) {
      for (const scenario of scenarios) {
        const report = await hammer({ scenario, seconds, program, major });
        const troubles = Object.entries(report.troubles).map(([what, count]) => `${count} ${what}`);
        print(
          `  PostgreSQL ${report.version}  ${scenario.name.padEnd(16)} ${String(report.starts).padStart(7)} starts` +
            `   ${shortfall(scenario, report)}   ${troubles.join(", ")}`,
        );
        for (const fault of report.faults) print(`    FAULT ${fault}`);
      }
    }
  },
};

function shortfall({ rate, keys, caps }: Scenario, { startsUs, lastedUs, starts }: HammerReport): string {
  if (rate === undefined || caps !== undefined) return "no rate to reach";
  const ideal = ({ limit, intervalMs, burst }: { limit: number; intervalMs: number; burst: number }): number =>
    burst + (limit * Number(lastedUs)) / (intervalMs * 1_000);
  if (rate.perKey == null) return `shortfall ${percent(1 - starts / ideal(rate.rate))}`;
  const { perKey } = rate;
  const missed = [...startsUs].filter(([key]) => key !== "").map(([, times]) => 1 - times.length / ideal(perKey));
  return `shortfall of the ${keys} keys ${percent(Math.min(...missed))} to ${percent(Math.max(...missed))}`;
}

const percent = (share: number): string => `${(share * 100).toFixed(2)} %`;
