import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { REPOSITORY } from "./support/repository";

/** What a command of npm's does instead of the real one, which cannot run inside of itself. */
interface Outcome {
  readonly status: number;
  /** Jest's counts; undefined if it did not get so far. */
  readonly counts?: { readonly passed: number; readonly failed: number; readonly brokenSuites?: number };
}

const FAKE = `#!/usr/bin/env node
const { writeFileSync } = require("node:fs");
const args = process.argv.slice(2);
const name = args[0] === "test" ? "test" : args[1];
const { status, counts } = JSON.parse(process.env.OUTCOMES)[name];
const file = args.find((arg) => arg.startsWith("--outputFile="))?.slice("--outputFile=".length);
if (counts) {
  const { passed, failed, brokenSuites = 0 } = counts;
  const json = { numPassedTests: passed, numFailedTests: failed, numRuntimeErrorTestSuites: brokenSuites };
  writeFileSync(file, JSON.stringify(json));
}
console.log("ran " + name);
process.exitCode = status;
`;

describe(".ci/run", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "workhorse-test-"));
    for (const name of [".ci", "bin", "tmp", "src", "sql", "tools", "test"]) {
      await mkdir(join(folder, name));
    }
    await copyFile(join(REPOSITORY, ".ci/run"), join(folder, ".ci/run"));
    await writeFile(join(folder, "bin/npm"), FAKE, { mode: 0o755 });
    const record = `#!/bin/sh\necho "$@" >> ${join(folder, "apt")}; echo "installing $@"\n`;
    await writeFile(join(folder, "bin/apt-get"), record, { mode: 0o755 });
    await writeFile(join(folder, "bin/sudo"), '#!/bin/sh\nshift\nexec "$@"\n', { mode: 0o755 });
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  async function ci(test: Outcome, system: Outcome, lint: Outcome) {
    const env = {
      PATH: `${join(folder, "bin")}:${process.env.PATH}`,
      TMPDIR: join(folder, "tmp"),
      OUTCOMES: JSON.stringify({ test, "test:system": system, lint }),
    };
    const child = spawn("bash", [join(folder, ".ci/run")], { env, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    child.stdout.on("data", (data) => (output += data));
    const [status] = await once(child, "close");
    return { status, output, last: output.trimEnd().split("\n").at(-1) };
  }

  const ok = (passed: number): Outcome => ({ status: 0, counts: { passed, failed: 0 } });
  const LINT_OK: Outcome = { status: 0 };

  test("sums up what passed, lint as one", async () => {
    expect(await ci(ok(40), ok(2), LINT_OK)).toMatchObject({ status: 0, last: "43 passed, 0 failed" });
  });

  test.each<[string, Outcome, Outcome, Outcome, string]>([
    ["a test", { status: 1, counts: { passed: 39, failed: 1 } }, ok(0), LINT_OK, "40 passed, 1 failed"],
    [
      "a suite",
      { status: 1, counts: { passed: 9, failed: 1, brokenSuites: 2 } },
      ok(0),
      LINT_OK,
      "10 passed, 3 failed",
    ],
    [
      "the run, after all its tests passed",
      { status: 1, counts: { passed: 9, failed: 0 } },
      ok(0),
      LINT_OK,
      "10 passed, 1 failed",
    ],
    ["the build", { status: 1 }, { status: 1 }, LINT_OK, "1 passed, 2 failed"],
    ["lint", ok(40), ok(2), { status: 1 }, "42 passed, 1 failed"],
  ])("fails if %s failed, after running all the same", async (_, test, system, lint, last) => {
    const result = await ci(test, system, lint);
    expect(result).toMatchObject({ status: 1, last });
    expect(result.output.match(/^ran .*/gm)).toEqual(["ran test", "ran test:system", "ran lint"]);
  });

  test("installs what system tests name, before they run, and nothing if there is none", async () => {
    expect((await ci(ok(1), ok(0), LINT_OK)).output).not.toContain("installing");
    await mkdir(join(folder, "src/a/node_modules"), { recursive: true });
    await writeFile(join(folder, "src/a/one.system.test.ts"), "// apt: pgbouncer  chromium\n");
    await writeFile(join(folder, "test/two.system.test.ts"), "import x;\n// apt: chromium\n");
    await writeFile(join(folder, "src/a/node_modules/three.system.test.ts"), "// apt: emacs\n");
    const { output } = await ci(ok(1), ok(3), LINT_OK);
    expect(output.match(/^(ran|installing) .*/gm)).toEqual([
      "ran test",
      "installing update -qq",
      "installing install -y -qq --no-install-recommends chromium pgbouncer",
      "ran test:system",
      "ran lint",
    ]);
  });
});
