import { existsSync } from "node:fs";
import { describe, expect, test } from "@jest/globals";
import { withProgram } from "../../../test/support/child-program";
import { eventually } from "../../../test/support/eventually";
import { isGroupRunning, isRunning } from ".";

/** Makes a folder, starts two groups of two processes each, has one of them guarded, and says what it made. */
const PROGRAM = `
import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startWatchdog } from "./watchdog";

const folder = mkdtempSync(join(tmpdir(), "workhorse-test-"));
writeFileSync(join(folder, "file"), "");
process.env.PATH = folder; // no program is to be found there
const watchdog = startWatchdog(folder, "KILL");
const start = () => spawn("/bin/sh", ["-c", "/bin/sleep 600 & /bin/sleep 600; :"], { detached: true, stdio: "ignore" }).pid!;
const [guarded, released] = [start(), start()];
watchdog.guard(-guarded);
watchdog.guard(-released)();
process.stdin.once("data", () => void watchdog.end().then(() => console.log("ended")));
console.log(JSON.stringify({ folder, guarded, released }));
`;

describe("the watchdog", () => {
  test.each([
    ["the process is killed", async (program: { kill(): Promise<void> }) => program.kill()],
    [
      "the watch is ended",
      async (program: { process: { stdin: NodeJS.WritableStream }; line(): Promise<string> }) => {
        program.process.stdin.write("end\n");
        expect(await program.line()).toBe("ended");
      },
    ],
  ])("when %s, stops what is guarded, and only that, and removes the folder", async (_, end) => {
    await withProgram(__dirname, PROGRAM, async (program) => {
      const { folder, guarded, released } = JSON.parse(await program.line());
      try {
        expect([await isGroupRunning(guarded), existsSync(folder)]).toEqual([true, true]);
        await end(program);
        await eventually("the folder to go", () => !existsSync(folder));
        expect([await isRunning(guarded), await isGroupRunning(guarded)]).toEqual([false, false]);
        expect(await isGroupRunning(released)).toBe(true);
      } finally {
        process.kill(-released, "SIGKILL");
      }
    });
  });
});
