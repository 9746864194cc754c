import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";

const LOCK = pathToFileURL(join(__dirname, "lock.mjs")).href;
const NAMES = "withLock, folder, spawn, log, appendFileSync";

describe("the lock between processes", () => {
  let folder: string;
  let log: string;
  let running: ChildProcessWithoutNullStreams[];

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "workhorse-test-"));
    log = join(folder, "log");
    running = [];
  });
  afterEach(async () => {
    for (const child of running) {
      child.kill("SIGKILL");
    }
    await rm(folder, { recursive: true, force: true });
  });

  /** A process that runs the body of an async function of NAMES; what it prints comes line by line. */
  function start(body: string) {
    const program = `
      import { spawn } from "node:child_process";
      import { appendFileSync } from "node:fs";
      import { withLock } from ${JSON.stringify(LOCK)};
      const [folder, log] = ${JSON.stringify([join(folder, "lock"), log])};
      await (async (${NAMES}) => { ${body} })(${NAMES});
    `;
    const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: "pipe" });
    running.push(child);
    const errors: Buffer[] = [];
    child.stderr.on("data", (data: Buffer) => errors.push(data));
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    const line = async () => (await lines.next()).value as string | undefined;
    const exit = once(child, "exit").then(([code]) => [code, Buffer.concat(errors).toString()]);
    return { child, line, exit };
  }

  const HOLD = `await withLock(folder, "holding", () => { console.log("held"); return new Promise(() => setInterval(() => {}, 1000)); });`;
  const TAKE = `
    const waited = (holder) => console.log("waiting for " + holder.pid + ": " + holder.purpose);
    await withLock(folder, "taking", async () => console.log("taken"), waited);
  `;

  test("lets one in at a time, however many come at once", async () => {
    const processes = Array.from({ length: 6 }, () =>
      start(`
        for (let i = 0; i < 4; i++) {
          await withLock(folder, "working", async () => {
            appendFileSync(log, "in " + process.pid + "\\n");
            await new Promise((resolve) => setTimeout(resolve, 40)); // the work: long enough that others look meanwhile
            appendFileSync(log, "out " + process.pid + "\\n");
          }, () => {});
        }
      `),
    );
    const exits = await Promise.all(processes.map(({ exit }) => exit));
    expect(exits).toEqual(processes.map(() => [0, ""]));
    const lines = (await readFile(log, "utf8")).trim().split("\n");
    expect(lines).toHaveLength(6 * 4 * 2);
    const apart = lines.filter((line, at) => at % 2 === 0 && lines[at + 1] !== line.replace("in", "out"));
    expect(apart).toEqual([]);
    expect(await readdir(join(folder, "lock"))).toHaveLength(1);
  });

  test("one that waits says for what, and goes on when the holder is killed", async () => {
    const holder = start(HOLD);
    expect(await holder.line()).toBe("held");
    const taker = start(TAKE);
    expect(await taker.line()).toBe(`waiting for ${holder.child.pid}: holding`);
    holder.child.kill("SIGKILL");
    expect(await taker.line()).toBe("taken");
    expect(await taker.exit).toEqual([0, ""]);
  });

  test("a killed holder's child still holds it", async () => {
    const holder = start(`
      await withLock(folder, "installing", async (lock) => {
        const child = spawn("sleep", ["600"], { stdio: "ignore", detached: true });
        await lock.setChild(child.pid);
        console.log(child.pid);
        await new Promise(() => setInterval(() => {}, 1000));
      });
    `);
    const pid = Number(await holder.line());
    let alive = true;
    try {
      holder.child.kill("SIGKILL");
      await holder.exit;
      const taker = start(TAKE);
      expect(await taker.line()).toBe(`waiting for ${holder.child.pid}: installing`);
      alive = !process.kill(pid, "SIGKILL");
      expect(await taker.line()).toBe("taken");
    } finally {
      if (alive) {
        process.kill(pid, "SIGKILL");
      }
    }
  });

  test("work that fails gives the lock back", async () => {
    const failing = start(`await withLock(folder, "failing", async () => { throw new Error("no"); });`);
    expect(await failing.exit).toEqual([1, expect.stringContaining("Error: no")]);
    expect(await start(TAKE).line()).toBe("taken");
  });

  test("a process that only has a dead holder's number holds nothing", async () => {
    await mkdir(join(folder, "lock"));
    const record = { pid: process.pid, started: "long ago", host: hostname(), purpose: "x", at: Date.now() };
    await writeFile(join(folder, "lock/holder-7"), JSON.stringify(record));
    await writeFile(join(folder, "lock/draft-999999999-a"), "of a killed process");
    expect(await start(TAKE).line()).toBe("taken");
  });

  test("a holder on another machine, which cannot be asked after, holds for half an hour", async () => {
    await mkdir(join(folder, "lock"));
    const write = (at: number) =>
      writeFile(
        join(folder, "lock/holder-1"),
        JSON.stringify({ pid: 1, host: `not-${hostname()}`, purpose: "far away", at }),
      );
    await write(Date.now());
    const taker = start(TAKE);
    expect(await taker.line()).toBe("waiting for 1: far away");
    await write(Date.now() - 31 * 60_000);
    expect(await taker.line()).toBe("taken");
  });
});
