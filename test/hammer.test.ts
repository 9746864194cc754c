import { join } from "node:path";
import { describe, expect, test } from "@jest/globals";
import { parsePostgresMajor } from "@workhorse/tools";
import { hammer, scenarios } from "../tools/src/hammer";
import { REPOSITORY } from "./support/repository";

const seconds = 10;
const program = join(REPOSITORY, "tools/dist/hammer/worker-process.js");
const major = parsePostgresMajor(process.env.WORKHORSE_TEST_POSTGRES_MAJOR, "WORKHORSE_TEST_POSTGRES_MAJOR");

describe("eight processes, killed, cut off, and the server crashed under them:", () => {
  test.each(scenarios.map((scenario) => [scenario.name, scenario] as const))(
    "%s: no bound is exceeded, no job is lost, none runs twice",
    async (_, scenario) => {
      const report = await hammer({ scenario, seconds, program, major });
      expect(report.faults).toEqual([]);
      expect(report.troubles["servers crashed"]).toBe(1);
      // That it was hammered at all; how much of the rate is reached is measured by npm run bench.
      expect(report.starts).toBeGreaterThan(50);
    },
    300_000,
  );
});
