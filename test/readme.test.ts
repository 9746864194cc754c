import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "@jest/globals";
import { fences, readmes, readReadme } from "./support/markdown";
import { REPOSITORY } from "./support/repository";
import { testTerraform } from "./support/terraform";

const READMES = readmes();

const manifest = (folder: string): { name: string; scripts?: Record<string, string> } =>
  JSON.parse(readReadme(join(folder, "package.json")));

test("each package has a README, and so have its tools", () => {
  expect(READMES).toEqual(
    expect.arrayContaining([
      "README.md",
      "sql/README.md",
      "src/provider/README.md",
      "src/queue/README.md",
      "src/worker/README.md",
      "tools/README.md",
    ]),
  );
});

describe.each(READMES)("%s", (file) => {
  const text = readReadme(file);

  test("links to what exists", () => {
    const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!);
    const relative = links.filter((target) => !/^https:\/\//.test(target));
    const broken = relative.filter((target) => !existsSync(join(REPOSITORY, dirname(file), target.replace(/#.*/, ""))));
    expect(broken).toEqual([]);
    const headings = new Set([...text.matchAll(/^#+ (.+)$/gm)].map(([, title]) => slug(title!)));
    expect(relative.filter((target) => target.startsWith("#") && !headings.has(target.slice(1)))).toEqual([]);
  });

  test("names commands that exist", () => {
    const root = manifest("").scripts!;
    const commands = [...text.matchAll(/\bnpm (?:run )?([a-z][a-z:]*)(?: -w ([\w@/-]+))?/g)].filter(
      ([whole, name]) => whole.startsWith("npm run ") || name === "start" || name === "test",
    );
    const unknown = commands.filter(([, name, workspace]) => {
      const scripts = workspace === undefined ? root : manifest(dirname(file)).scripts;
      return scripts?.[name!] === undefined || (workspace !== undefined && manifest(dirname(file)).name !== workspace);
    });
    expect(unknown.map(([whole]) => whole)).toEqual([]);
  });
});

test("the TypeScript of the READMEs is right by the built packages, under strict", async () => {
  const folder = await mkdtemp(join(tmpdir(), "workhorse-test-"));
  try {
    await symlink(join(REPOSITORY, "node_modules"), join(folder, "node_modules"));
    const files: string[] = [];
    for (const readme of READMES) {
      for (const [index, code] of fences(readReadme(readme), "ts").entries()) {
        const file = join(folder, `${readme.replaceAll("/", "-")}-${index + 1}.mts`);
        await writeFile(file, code);
        files.push(file);
      }
    }
    expect(files.length).toBeGreaterThanOrEqual(6);
    const options = {
      ...{ target: "es2022", module: "node16", strict: true, noEmit: true, skipLibCheck: true, types: ["node"] },
      typeRoots: [join(REPOSITORY, "node_modules/@types")],
    };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files }));
    const tsc = join(REPOSITORY, "node_modules/typescript/bin/tsc");
    // In a process of its own: with the compiler's memory, Jest's worker would take too long to exit.
    const child = promisify(execFile)(process.execPath, [tsc, "-p", folder, "--listFiles"], { maxBuffer: 1e8 });
    const { stdout } = await child.catch((error: { stdout: string }) => error);
    const lines = stdout.split("\n");
    expect(lines.filter((line) => /error TS/.test(line))).toEqual([]);
    // By what the build left, as users see it, and not by the sources.
    const ours = lines.filter((line) => line.startsWith(REPOSITORY) && !line.includes("/node_modules/"));
    expect(ours).toEqual(expect.arrayContaining([join(REPOSITORY, "src/worker/dist/index.d.ts")]));
    expect(ours.filter((line) => !line.endsWith(".d.ts"))).toEqual([]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

describe("the HCL", () => {
  const hasResource = (code: string) => /^resource /m.test(code);

  test("of the README is a part of examples/quickstart", () => {
    const shown = fences(readReadme("README.md"), "hcl").filter(hasResource);
    expect(shown).toHaveLength(1);
    expect(readReadme("examples/quickstart/main.tf")).toContain(shown[0]);
  });

  test("of the provider's README is valid", async () => {
    const shown = fences(readReadme("src/provider/README.md"), "hcl").filter(hasResource);
    expect(shown).toHaveLength(1);
    const terraform = await testTerraform();
    try {
      const workspace = await terraform.workspace({ "main.tf": shown[0]! });
      await workspace.init();
      expect(await workspace.validate()).toMatchObject({ ok: true, text: "Success! The configuration is valid." });
    } finally {
      await terraform.dispose();
    }
  });
});

/** As GitHub makes anchors of headings. */
function slug(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\s-]/g, "")
    .replaceAll(" ", "-");
}
