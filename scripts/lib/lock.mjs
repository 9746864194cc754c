import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { link, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 100;
const FIELDS_BEFORE_START_TIME = 19;
/** Processes of another machine cannot be asked after: so long after its last word a holder there counts as dead. */
const REMOTE_PATIENCE_MS = 30 * 60_000;

/**
 * Does something while no other process does it, among those that name the same folder. A holder that died, however it
 * did, holds nothing; one whose child process still works on the files does.
 *
 * How: the holders are files with rising numbers, made by an atomic link. Whoever finds the last holder ended makes the
 * next number; only one can. A number is never used twice and only a later holder removes earlier files, so that
 * nobody takes a fresh holder for the dead one it has just seen.
 *
 * @template T
 * @param {string} folder Where the lock's files are; made if missing.
 * @param {string} purpose What this process does under the lock, for those who wait.
 * @param {(holder: { setChild(pid: number | undefined): Promise<void> }) => Promise<T>} work
 * @param {(holder: { pid: number, purpose: string }) => void} onWait Called once per holder waited for.
 * @returns {Promise<T>}
 */
export async function withLock(folder, purpose, work, onWait) {
  await mkdir(folder, { recursive: true });
  const self = { pid: process.pid, started: startTime(process.pid), host: hostname(), purpose };
  const number = await acquire(folder, self, onWait);
  let written = Promise.resolve();
  const update = (record) => {
    written = written.then(() => replace(folder, number, record));
    return written;
  };
  try {
    return await work({ setChild: (pid) => update({ ...self, child: describeChild(pid) }) });
  } finally {
    await update({ released: true });
  }
}

async function acquire(folder, self, onWait) {
  const draft = join(folder, `draft-${process.pid}-${randomBytes(6).toString("hex")}`);
  try {
    let toldOf;
    for (;;) {
      const last = Math.max(0, ...(await numbers(folder)));
      const holder = last === 0 ? undefined : await readHolder(folder, last);
      if (holder !== undefined && isHeld(holder)) {
        if (toldOf !== last) {
          toldOf = last;
          onWait(holder);
        }
        await delay(POLL_MS);
        continue;
      }
      const number = last + 1;
      await writeFile(draft, JSON.stringify({ ...self, at: Date.now() }));
      if (!(await tryLink(draft, fileOf(folder, number)))) {
        continue; // another was faster
      }
      const present = await numbers(folder);
      if (Math.max(...present) > number) {
        await rm(fileOf(folder, number), { force: true }); // what was seen was long over
        continue;
      }
      for (const earlier of present.filter((one) => one < number)) {
        await rm(fileOf(folder, earlier), { force: true });
      }
      await removeDrafts(folder);
      return number;
    }
  } finally {
    await rm(draft, { force: true });
  }
}

/** Drafts of processes that were killed before they could use them. */
async function removeDrafts(folder) {
  for (const name of await readdir(folder)) {
    const pid = /^draft-(\d+)-/.exec(name)?.[1];
    if (pid !== undefined && !isAlive({ pid: Number(pid) })) {
      await rm(join(folder, name), { force: true });
    }
  }
}

const fileOf = (folder, number) => join(folder, `holder-${number}`);

async function numbers(folder) {
  const names = await readdir(folder);
  return names.flatMap((name) => (/^holder-\d+$/.test(name) ? [Number(name.slice("holder-".length))] : []));
}

async function tryLink(from, to) {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if (error.code === "EEXIST") {
      return false;
    }
    throw error;
  }
}

async function replace(folder, number, record) {
  const draft = join(folder, `draft-${process.pid}-${randomBytes(6).toString("hex")}`);
  await writeFile(draft, JSON.stringify({ ...record, at: Date.now() }));
  await rename(draft, fileOf(folder, number));
}

/** Undefined if a later holder has removed it meanwhile. */
async function readHolder(folder, number) {
  try {
    return JSON.parse(await readFile(fileOf(folder, number), "utf8"));
  } catch (error) {
    if (error.code === "ENOENT") {
      return undefined;
    }
    throw error;
  }
}

function isHeld(holder) {
  if (holder.released) {
    return false;
  }
  if (holder.host !== hostname()) {
    return Date.now() - holder.at < REMOTE_PATIENCE_MS;
  }
  return isAlive(holder) || (holder.child !== undefined && isAlive(holder.child));
}

function describeChild(pid) {
  return pid === undefined ? undefined : { pid, started: startTime(pid) };
}

/** Whether a process is the one that was recorded: its number may have gone to another one since. */
function isAlive({ pid, started }) {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (error.code === "ESRCH") {
      return false;
    }
  }
  return started === undefined || startTime(pid) === started;
}

/** When a process started, in whatever form the system gives; undefined if it does not run or that cannot be told. */
function startTime(pid) {
  try {
    if (process.platform === "linux") {
      const text = readFileSync(`/proc/${pid}/stat`, "utf8");
      const [state, ...fields] = text.slice(text.lastIndexOf(")") + 2).split(" ");
      return state === "Z" ? undefined : fields[FIELDS_BEFORE_START_TIME - 1];
    }
    return execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" }).trim();
  } catch {
    return undefined;
  }
}
