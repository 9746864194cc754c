import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { install, isInstalled } from "./install.mjs";
import { withLock } from "./lock.mjs";
import { CommandError, findProgram } from "./process.mjs";
import { ROOT } from "./root.mjs";

const PARENT_POLL_MS = 500;
const JEST = join(ROOT, "node_modules/jest/bin/jest.js");

/** What each command needs, and does once everything is installed and, unless it says otherwise, built. */
const COMMANDS = {
  start: { terraform: true, execute: (args) => become(join(ROOT, "tools/dist/start/main.js"), args) },
  bench: { terraform: true, execute: (args) => become(join(ROOT, "tools/dist/bench/main.js"), args) },
  test: { terraform: true, execute: (args) => become(JEST, args) },
  "test:pg": {
    terraform: true,
    execute: async ([major, ...args]) => {
      process.env.WORKHORSE_TEST_POSTGRES_MAJOR = await checkMajor(major);
      await become(JEST, args);
    },
  },
  "test:system": {
    terraform: true,
    execute: (args) => become(JEST, ["--config", join(ROOT, "jest.system.config.js"), ...args]),
  },
  build: { terraform: false, execute: () => {} },
  lint: {
    terraform: false,
    build: false,
    execute: async () => {
      const { lint } = await import("./lint.mjs");
      process.exitCode = (await lint()) ? 0 : 1;
    },
  },
};

/**
 * Runs a command and leaves its exit status.
 *
 * @param {string[]} args The command's name and its arguments.
 */
export async function main([name, ...args]) {
  try {
    const command = Object.hasOwn(COMMANDS, name ?? "") ? COMMANDS[name] : undefined;
    if (command === undefined) {
      throw new CommandError(`Unknown command ${name ?? "(none)"}: accepted are ${Object.keys(COMMANDS).join(", ")}`);
    }
    if (command.terraform && findProgram("terraform") === undefined) {
      throw new CommandError(
        `npm run ${name} needs terraform on the PATH, and there is none: install it, https://developer.hashicorp.com/terraform/install`,
      );
    }
    if (process.env.npm_lifecycle_event !== undefined) {
      endWithParent();
    }
    await prepare(name, command.build ?? true);
    await command.execute(args);
  } catch (error) {
    if (!(error instanceof CommandError)) {
      throw error;
    }
    console.error(error.message);
    process.exitCode = 1;
  }
}

/**
 * Ends this process when npm, or the shell that npm starts it by, is gone: npm passes SIGTERM on to that shell only, and
 * nothing passes on a SIGKILL.
 */
function endWithParent() {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid !== parent) {
      clearInterval(timer);
      process.kill(process.pid, "SIGTERM");
    }
  }, PARENT_POLL_MS);
  timer.unref();
}

/** Installs and builds, one process at a time: a second `npm start` or `npm test` waits, then finds it done. */
async function prepare(name, withBuild) {
  await withLock(
    join(ROOT, ".build/lock"),
    `npm run ${name}`,
    async (holder) => {
      const options = { onChild: (pid) => holder.setChild(pid) };
      if (!isInstalled()) {
        await step("Installing the packages of package-lock.json", () => install(options));
      }
      if (withBuild) {
        const { build } = await import("../build.mjs");
        await step("Building", () => build(options));
      }
    },
    (holder) =>
      console.error(`Waiting for process ${holder.pid} (${holder.purpose}) to finish its installing and building`),
  );
}

/** Says what is being done, and for how long: on stderr, since stdout belongs to the command. */
async function step(what, work) {
  const start = performance.now();
  process.stderr.write(`${what} ... `);
  try {
    await work();
  } catch (error) {
    process.stderr.write("failed\n");
    throw error;
  }
  process.stderr.write(`${((performance.now() - start) / 1000).toFixed(1)} s\n`);
}

/** Here, and not only in the tests' set-up, whose errors come with Jest's stack. */
async function checkMajor(major) {
  const { default: versions } = await import(pathToFileURL(join(ROOT, "tools/dist/postgres/versions.js")).href);
  if (!versions.POSTGRES_BUILDS.has(Number(major))) {
    const accepted = [...versions.POSTGRES_BUILDS.keys()].join(", ");
    const got = major === undefined ? "none" : JSON.stringify(major);
    throw new CommandError(`npm run test:pg -- MAJOR: got ${got}, accepted is a PostgreSQL major: ${accepted}`);
  }
  return major;
}

/** Turns this process into another Node.js program: no process in between to pass signals and statuses through. */
async function become(file, args) {
  if (!existsSync(file)) {
    throw new CommandError(`${file} does not exist: this command is not there yet`);
  }
  process.argv = [process.execPath, file, ...args];
  await import(pathToFileURL(file).href);
}
