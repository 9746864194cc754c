import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";

const RUN = join(__dirname, "run.mjs");

describe("scripts/run.mjs", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "workhorse-test-"));
    await symlink(process.execPath, join(folder, "node"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  /** Runs it where the PATH holds nothing but node. */
  async function outcome(...args: string[]) {
    const child = spawn(process.execPath, args, { env: { PATH: folder }, stdio: ["ignore", "pipe", "pipe"] });
    const output: Buffer[] = [];
    child.stdout.on("data", (data: Buffer) => output.push(data));
    child.stderr.on("data", (data: Buffer) => output.push(data));
    const [code] = await once(child, "close");
    return { code, lines: Buffer.concat(output).toString().trimEnd().split("\n") };
  }

  test.each(["start", "test", "test:pg", "test:system", "bench"])(
    "%s says in one line that terraform is missing",
    async (command) => {
      const line = expect.stringMatching(
        `^npm run ${command} needs terraform on the PATH, and there is none: install it, https:`,
      );
      expect(await outcome(RUN, command)).toEqual({ code: 1, lines: [line] });
    },
  );

  test.each([[["nonsense"]], [[]], [["toString"]]])(
    "refuses the unknown command %j with those it knows",
    async (args) => {
      const { code, lines } = await outcome(RUN, ...args);
      expect([code, lines.length]).toEqual([1, 1]);
      expect(lines[0]).toMatch(
        /^Unknown command .*: accepted are start, bench, test, test:pg, test:system, build, lint$/,
      );
    },
  );

  test.each([
    [["14"], '"14"'],
    [["src/worker", "15"], '"src/worker"'],
    [[], "none"],
  ])("test:pg %j names the versions of PostgreSQL", async (args, got) => {
    await symlink(process.execPath, join(folder, "terraform")); // it is there; nothing runs it
    const { code, lines } = await outcome(RUN, "test:pg", ...args);
    expect([code, lines.at(-1)]).toEqual([
      1,
      `npm run test:pg -- MAJOR: got ${got}, accepted is a PostgreSQL major: 15, 16, 17, 18`,
    ]);
  });

  test("says in one line that Node.js is too old", async () => {
    const old = join(folder, "old.cjs");
    await writeFile(old, `Object.defineProperty(process.versions, "node", { value: "18.20.4" });`);
    const line = expect.stringContaining("Workhorse needs Node.js 20 or newer; this is");
    expect(await outcome("--require", old, RUN, "test")).toEqual({ code: 1, lines: [line] });
  });
});
