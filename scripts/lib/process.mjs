import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { ROOT } from "./root.mjs";

/** A failure that its message says all about; no stack is shown. */
export class CommandError extends Error {
  name = "CommandError";
}

/**
 * Runs a program in the repository's folder. Its output is shown only if it fails.
 *
 * @param {string} what What it is, for the error.
 * @param {{ onChild?: (pid: number | undefined) => void, env?: NodeJS.ProcessEnv }} [options]
 */
export async function run(what, file, args, { onChild, env } = {}) {
  const child = spawn(file, args, { cwd: ROOT, env: env ?? process.env, stdio: ["ignore", "pipe", "pipe"] });
  onChild?.(child.pid);
  const output = [];
  child.stdout.on("data", (data) => output.push(data));
  child.stderr.on("data", (data) => output.push(data));
  const [code, signal] = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (...end) => resolve(end));
  }).catch((error) => {
    throw new CommandError(`${what} could not be started (${file}): ${error.message}`);
  });
  onChild?.(undefined);
  if (code !== 0) {
    const text = Buffer.concat(output).toString("utf8").trimEnd();
    throw new CommandError(`${text}${text && "\n"}${what} failed (${signal ?? `status ${code}`})`);
  }
}

/** Runs a Node.js program; see {@link run}. */
export async function runNode(what, args, options) {
  await run(what, process.execPath, args, options);
}

/** The path of a program on the PATH; undefined if there is none. */
export function findProgram(name) {
  const suffixes = process.platform === "win32" ? [".exe", ".cmd"] : [""];
  for (const folder of (process.env.PATH ?? "").split(delimiter).filter(Boolean)) {
    for (const suffix of suffixes) {
      try {
        accessSync(join(folder, name + suffix), constants.X_OK);
        return join(folder, name + suffix);
      } catch {
        // not here
      }
    }
  }
  return undefined;
}
