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
    print(`${seconds} s each; shortfall: what was missed of the rate, outages left out`);
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

function shortfall({ rate, keys, caps }: Scenario, { startsUs, windows }: HammerReport): string {
  if (rate === undefined || caps !== undefined) return "no rate to reach";
  const missed = (times: readonly bigint[], { limit, intervalMs }: { limit: number; intervalMs: number }): number => {
    const started = times.filter((us) => windows.some(({ fromUs, toUs }) => us >= fromUs && us < toUs)).length;
    const lastedUs = windows.reduce((sum, { fromUs, toUs }) => sum + Number(toUs - fromUs), 0);
    return 1 - started / ((limit * lastedUs) / (intervalMs * 1_000));
  };
  if (rate.perKey == null) return `shortfall ${percent(missed(startsUs.get("")!, rate.rate))}`;
  const { perKey } = rate;
  const ofKeys = [...startsUs].filter(([key]) => key !== "").map(([, times]) => missed(times, perKey));
  return `shortfall of the ${keys} keys ${percent(Math.min(...ofKeys))} to ${percent(Math.max(...ofKeys))}`;
}

const percent = (share: number): string => `${(share * 100).toFixed(2)} %`;
