import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";

const run = promisify(execFile);
const INSTALL = pathToFileURL(join(__dirname, "install.mjs")).href;

describe("isInstalled", () => {
  let root: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "workhorse-test-"));
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  const here = { os: [process.platform], cpu: [process.arch] };
  const elsewhere = { os: ["plan9"], cpu: [process.arch] };

  interface Repository {
    manifest: Record<string, unknown>;
    workspace: Record<string, unknown>;
    locked: Record<string, Record<string, unknown>>;
    installed: Record<string, Record<string, unknown>> | undefined;
    present: string[];
  }

  /** A repository that is in order, with one workspace. */
  function inOrder(): Repository {
    const packages = {
      "node_modules/a": { version: "1.0.0", integrity: "sha512-a" },
      "node_modules/a-here": { version: "1.0.0", integrity: "sha512-h", optional: true, ...here },
      "packages/one": { version: "0.1.0" },
      "node_modules/one": { resolved: "packages/one", link: true },
    };
    return {
      manifest: { workspaces: ["packages/*"], devDependencies: { a: "1.0.0", b: "2" } },
      workspace: { dependencies: { a: "1.0.0" } },
      locked: {
        ...structuredClone(packages),
        "": { devDependencies: { b: "2", a: "1.0.0" } },
        "packages/one": { version: "0.1.0", dependencies: { a: "1.0.0" } },
        "node_modules/a-there": { version: "1.0.0", integrity: "sha512-t", optional: true, ...elsewhere },
      },
      installed: packages,
      present: ["node_modules/a", "node_modules/a-here", "node_modules/one"],
    };
  }

  async function judge({ manifest, workspace, locked, installed, present }: Repository): Promise<boolean> {
    for (const folder of ["node_modules", "packages/one", ...present]) {
      await mkdir(join(root, folder), { recursive: true });
    }
    const write = (file: string, content: unknown) => writeFile(join(root, file), JSON.stringify(content));
    await write("package.json", manifest);
    await write("packages/one/package.json", workspace);
    await write("package-lock.json", { packages: locked });
    if (installed !== undefined) {
      await write("node_modules/.package-lock.json", { packages: installed });
    }
    const program = `import { isInstalled } from ${JSON.stringify(INSTALL)}; console.log(isInstalled(process.argv[1]))`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "-e", program, root]);
    return stdout.trim() === "true";
  }

  test("is true of what npm ci leaves", async () => {
    expect(await judge(inOrder())).toBe(true);
  });

  test.each<[string, (repository: Repository) => void]>([
    ["nothing was installed, or not to the end", (one) => (one.installed = undefined)],
    ["the lock has another version", (one) => (one.locked["node_modules/a"]!.version = "1.0.1")],
    ["the lock has other content", (one) => (one.locked["node_modules/a"]!.integrity = "sha512-x")],
    ["the lock has one more", (one) => (one.locked["node_modules/c"] = { version: "1.0.0" })],
    ["one more is installed", (one) => (one.installed!["node_modules/c"] = { version: "1.0.0" })],
    ["a package was removed by hand", (one) => one.present.shift()],
    [
      "node_modules comes from another platform",
      (one) => Object.assign(one.installed!["node_modules/a-here"]!, elsewhere),
    ],
    ["the root's package.json was changed", (one) => (one.manifest.dependencies = { c: "1" })],
    ["a workspace's package.json was changed", (one) => (one.workspace.dependencies = {})],
  ])("is false if %s", async (_, change) => {
    const repository = inOrder();
    change(repository);
    expect(await judge(repository)).toBe(false);
  });
});
