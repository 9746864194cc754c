import { claimSuite } from "./claim";
import { enqueueSuite } from "./enqueue";
import { hammerSuite } from "./hammer";
import { headOfLineSuite } from "./head-of-line";
import { peersSuite } from "./peers";
import { providerStartSuite } from "./provider-start";
import { statusesSuite } from "./statuses";
import type { Suite } from "./suite";
import { syncSuite } from "./sync";

const suites: readonly Suite[] = [
  claimSuite,
  headOfLineSuite,
  hammerSuite,
  enqueueSuite,
  statusesSuite,
  peersSuite,
  syncSuite,
  providerStartSuite,
];

const usage = `Usage: npm run bench -- [NAME ...] [--rounds N]

Each benchmark prints ratios that were measured side by side in one run (default: 20 rounds, all benchmarks):
${suites.map(({ name, about }) => `  ${name.padEnd(16)}${about}`).join("\n")}`;

/** What the command line asks for; a text when it cannot be understood. */
function parse(args: readonly string[]): { chosen: readonly Suite[]; rounds: number } | string {
  const names: string[] = [];
  let rounds = 20;
  for (let i = 0; i < args.length; i += 1) {
    const argument = args[i]!;
    if (argument === "--rounds") {
      i += 1;
      rounds = Number(args[i]);
      if (!Number.isInteger(rounds) || rounds < 1 || rounds > 1000) {
        return `--rounds is ${args[i] ?? "missing"}; accepted: an integer from 1 to 1,000`;
      }
    } else names.push(argument);
  }
  const unknown = names.find((name) => !suites.some((suite) => suite.name === name));
  if (unknown !== undefined) return `there is no benchmark ${unknown}`;
  return { chosen: suites.filter(({ name }) => names.length === 0 || names.includes(name)), rounds };
}

async function main(): Promise<void> {
  const args = process.argv.slice(2);
  if (args.includes("--help") || args.includes("-h")) {
    console.log(usage);
    return;
  }
  const asked = parse(args);
  if (typeof asked === "string") {
    console.error(`${asked}\n\n${usage}`);
    process.exitCode = 2;
    return;
  }
  for (const suite of asked.chosen) {
    await suite.run({ rounds: asked.rounds, print: (line) => console.log(line) });
    console.log("");
  }
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
