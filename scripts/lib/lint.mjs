import { join } from "node:path";
import { embedSql } from "../build.mjs";
import { CommandError, findProgram, run, runNode } from "./process.mjs";
import { ROOT } from "./root.mjs";

const bin = (path) => join(ROOT, "node_modules", path);

/** Types, linter and formatter: every check runs, whatever the others say. */
const CHECKS = {
  "types of the packages": async () => {
    await embedSql();
    await runNode("tsc -b", [bin("typescript/bin/tsc"), "-b"]);
  },
  "types of the tests": () => runNode("tsc", [bin("typescript/bin/tsc"), "-p", "tsconfig.tests.json"]),
  "linter and formatter": () =>
    runNode("biome ci", [bin("@biomejs/biome/bin/biome"), "ci", "--error-on-warnings", "--colors=off", "."]),
  "format of the examples": async () => {
    const terraform = findProgram("terraform");
    if (terraform === undefined) {
      return "skipped: no terraform on the PATH";
    }
    await run("terraform fmt", terraform, ["fmt", "-check", "-diff", "-recursive", "examples"]);
  },
};

/** @returns {Promise<boolean>} Whether all checks passed. */
export async function lint() {
  let failed = 0;
  for (const [name, check] of Object.entries(CHECKS)) {
    try {
      console.log(`${name}: ${(await check()) ?? "ok"}`);
    } catch (error) {
      if (!(error instanceof CommandError)) {
        throw error;
      }
      failed++;
      console.log(`${name}: FAILED\n${error.message}\n`);
    }
  }
  console.log(failed === 0 ? "lint passed" : `lint failed: ${failed} of ${Object.keys(CHECKS).length} checks`);
  return failed === 0;
}
