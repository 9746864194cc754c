import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { run } from "./process.mjs";
import { ROOT } from "./root.mjs";

const DEPENDENCY_FIELDS = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];

/**
 * Installs exactly what package-lock.json says, with the npm that started this process if there is one.
 *
 * @param {{ onChild?: (pid: number | undefined) => void }} options
 */
export async function install(options) {
  const args = ["ci", "--include=dev", "--include=optional", "--prefer-offline", "--no-audit", "--no-fund"];
  const quiet = [...args, "--loglevel=error"];
  const npm = process.env.npm_execpath;
  if (npm !== undefined && basename(npm) === "npm-cli.js") {
    await run("npm ci", process.execPath, [npm, ...quiet], options);
  } else {
    await run("npm ci", process.platform === "win32" ? "npm.cmd" : "npm", quiet, options);
  }
}

/**
 * Whether node_modules is what package-lock.json and the package.json files say. npm's own record of what it installed
 * tells, which it writes last, so an install that was killed, or made by hand, is judged rightly.
 *
 * @param {string} [root] The repository.
 */
export function isInstalled(root = ROOT) {
  const locked = readJson(join(root, "package-lock.json"))?.packages;
  const installed = readJson(join(root, "node_modules/.package-lock.json"))?.packages;
  if (locked === undefined || installed === undefined) {
    return false;
  }
  for (const folder of packageFolders(root)) {
    const manifest = readJson(join(root, folder, "package.json"));
    if (DEPENDENCY_FIELDS.some((field) => !isSame(manifest?.[field], locked[folder]?.[field]))) {
      return false;
    }
  }
  for (const [path, entry] of Object.entries(installed)) {
    const wanted = locked[path];
    if (wanted === undefined || wanted.version !== entry.version || wanted.integrity !== entry.integrity) {
      return false;
    }
    // node_modules may come from another machine, or a package may have been removed by hand.
    if (!fits(entry.os, process.platform) || !fits(entry.cpu, process.arch) || !existsSync(join(root, path))) {
      return false;
    }
  }
  return Object.entries(locked).every(
    ([path, entry]) => !path.includes("node_modules/") || path in installed || entry.optional || entry.devOptional,
  );
}

/** The folders of package.json files, relative to the root, itself as "". */
function packageFolders(root) {
  const { workspaces = [] } = readJson(join(root, "package.json")) ?? {};
  const folders = workspaces.flatMap((pattern) => {
    if (!pattern.endsWith("/*")) {
      return [pattern];
    }
    const parent = dirname(pattern);
    return readdirSync(join(root, parent)).map((name) => `${parent}/${name}`);
  });
  return ["", ...folders.filter((folder) => existsSync(join(root, folder, "package.json")))];
}

/** Whether a value is in a list of npm's: names that are accepted, or with "!" names that are not. */
function fits(list, value) {
  return (
    list === undefined || list.includes(value) || (!list.includes(`!${value}`) && list.some((one) => one[0] === "!"))
  );
}

function isSame(one, other) {
  const ordered = (record) => JSON.stringify(Object.entries(record ?? {}).sort());
  return ordered(one) === ordered(other);
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    if (error.code === "ENOENT") {
      return undefined;
    }
    throw error;
  }
}
