import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import ts from "typescript";
import { REPOSITORY } from "./support/repository";

const run = promisify(execFile);

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly private?: boolean;
  readonly dependencies?: Record<string, string>;
  readonly peerDependencies?: Record<string, string>;
  readonly peerDependenciesMeta?: Record<string, { readonly optional?: boolean }>;
  readonly workspaces?: string[];
}

const manifestOf = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(REPOSITORY, folder, "package.json"), "utf8"));

/** The TypeScript sources of a package without its tests, relative to `src`. */
const sourcesOf = (folder: string): string[] =>
  readdirSync(join(REPOSITORY, folder, "src"), { encoding: "utf8", recursive: true }).filter(
    (file) => file.endsWith(".ts") && !file.endsWith(".test.ts"),
  );

/** The folders of the packages that are published. */
const PUBLISHED = manifestOf("")
  .workspaces!.flatMap((pattern) =>
    pattern.endsWith("/*")
      ? readdirSync(join(REPOSITORY, dirname(pattern))).map((name) => join(dirname(pattern), name))
      : [pattern],
  )
  .filter((folder) => existsSync(join(REPOSITORY, folder, "package.json")) && !manifestOf(folder).private);
const OURS = new Set(PUBLISHED.map((folder) => manifestOf(folder).name));

/** The packages that a package's sources import, at run time or for types. */
function importsOf(folder: string): string[] {
  const names = sourcesOf(folder).flatMap((file) => {
    const text = readFileSync(join(REPOSITORY, folder, "src", file), "utf8");
    return ts.preProcessFile(text, true, true).importedFiles.map(({ fileName }) => fileName);
  });
  const packages = names
    .filter((name) => !name.startsWith(".") && !isBuiltin(name))
    .map((name) => name.split("/", name.startsWith("@") ? 2 : 1).join("/"));
  return [...new Set(packages)].sort();
}

describe("the packages", () => {
  let temporary: string;
  let tarballs: Map<string, { file: string; content: string[] }>;

  beforeAll(async () => {
    temporary = await mkdtemp(join(tmpdir(), "workhorse-test-"));
    const options = ["--json", "--offline", `--pack-destination=${temporary}`, `--cache=${join(temporary, "cache")}`];
    const { stdout } = await run("npm", ["pack", ...options, ...PUBLISHED.map((folder) => `--workspace=${folder}`)], {
      cwd: REPOSITORY,
      maxBuffer: 64 * 1024 * 1024,
    });
    const packed: { name: string; filename: string; files: { path: string }[] }[] = JSON.parse(stdout);
    tarballs = new Map(
      packed.map(({ name, filename, files }) => [
        name,
        { file: join(temporary, filename), content: files.map(({ path }) => path).sort() },
      ]),
    );
  });
  afterAll(() => rm(temporary, { recursive: true, force: true }));

  test("are those of the contract so far", () => {
    expect([...OURS]).toEqual(
      expect.arrayContaining([
        "@workhorse/sql",
        "@workhorse/queue",
        "@workhorse/worker",
        "terraform-provider-workhorse",
      ]),
    );
  });

  describe.each(PUBLISHED)("%s", (folder) => {
    const manifest = manifestOf(folder);
    const { dependencies = {}, peerDependencies = {}, peerDependenciesMeta = {} } = manifest;

    test("describes itself", () => {
      expect(manifest).toMatchObject({
        version: manifestOf("").version,
        description: expect.stringMatching(/^\S.{20,}[^.]$/),
        license: "MIT",
        engines: { node: ">=20" },
        main: "./dist/index.js",
        types: "./dist/index.d.ts",
        exports: { ".": { types: "./dist/index.d.ts", default: "./dist/index.js" } },
      });
    });

    test("has the repository's licence, and a README that begins with its name", async () => {
      const read = (path: string) => readFile(join(REPOSITORY, path), "utf8");
      expect(await read(join(folder, "LICENSE"))).toBe(await read("LICENSE"));
      expect((await read(join(folder, "README.md"))).split("\n")[0]).toBe(`# ${manifest.name}`);
    });

    test("declares what it imports, and nothing else", () => {
      const imported = importsOf(folder);
      const declared = { ...peerDependencies, ...dependencies };
      const needless = Object.keys(declared).filter(
        (name) => !imported.includes(name) && !peerDependenciesMeta[name]?.optional,
      );
      expect({ undeclared: imported.filter((name) => !(name in declared)), needless }).toEqual({
        undeclared: [],
        needless: [],
      });
    });

    test("pins what it depends on, ours at its own version", () => {
      for (const [name, range] of Object.entries(dependencies)) {
        expect([name, range]).toEqual([
          name,
          OURS.has(name) ? manifest.version : expect.stringMatching(/^\d+\.\d+\.\d+$/),
        ]);
      }
    });

    test("packs what its sources were built to, a licence and a README", () => {
      const built = sourcesOf(folder)
        .map((file) => `dist/${file.slice(0, -".ts".length)}`)
        .flatMap((file) => [`${file}.js`, `${file}.d.ts`, `${file}.js.map`]);
      expect(tarballs.get(manifest.name)!.content).toEqual([...built, "LICENSE", "README.md", "package.json"].sort());
    });

    test("publint finds nothing", async () => {
      const cli = join(REPOSITORY, "node_modules/publint/src/cli.js");
      const { stdout } = await run(process.execPath, [cli, "run", tarballs.get(manifest.name)!.file, "--strict"]);
      expect(stdout).toContain("All good!");
    });

    test("its types are found and right from CommonJS and ESM", async () => {
      const cli = join(REPOSITORY, "node_modules/@arethetypeswrong/cli/dist/index.js");
      const { stdout } = await run(process.execPath, [
        ...[cli, tarballs.get(manifest.name)!.file],
        ...["--no-definitely-typed", "--no-color", "--format=ascii"],
      ]);
      expect(stdout).toContain("No problems found");
    });

    test("once installed, exports the same names to CommonJS and, by name, to ESM", async () => {
      const home = await mkdtemp(join(temporary, "installed-"));
      await installFrom(home, manifest.name);
      await writeFile(
        join(home, "all.mjs"),
        `import { createRequire } from "node:module";
         import * as esm from ${JSON.stringify(manifest.name)};
         const cjs = createRequire(import.meta.url)(${JSON.stringify(manifest.name)});
         console.log(JSON.stringify(Object.keys(cjs).map((name) => [name, esm[name] === cjs[name]])));`,
      );
      const names: [string, boolean][] = JSON.parse((await run(process.execPath, [join(home, "all.mjs")])).stdout);
      expect(names.filter(([, same]) => !same)).toEqual([]);
      const list = names.map(([name]) => name).join(", ");
      await writeFile(join(home, "named.mjs"), `import { ${list} } from "${manifest.name}";\n[${list}];`);
      await writeFile(join(home, "named.cjs"), `const { ${list} } = require("${manifest.name}");\n[${list}];`);
      for (const file of ["named.mjs", "named.cjs"]) {
        expect(await run(process.execPath, [join(home, file)])).toEqual({ stdout: "", stderr: "" });
      }
    });
  });

  /** Unpacks a package and ours below it into a node_modules, beside links to exactly what they declare. */
  async function installFrom(home: string, name: string): Promise<void> {
    const target = join(home, "node_modules", name);
    if (existsSync(target)) {
      return;
    }
    await mkdir(OURS.has(name) ? target : dirname(target), { recursive: true });
    if (!OURS.has(name)) {
      await symlink(join(REPOSITORY, "node_modules", name), target);
      return;
    }
    await run("tar", ["-xzf", tarballs.get(name)!.file, "-C", target, "--strip-components=1"]);
    const { dependencies = {}, peerDependencies = {} }: Manifest = JSON.parse(
      await readFile(join(target, "package.json"), "utf8"),
    );
    for (const dependency of Object.keys({ ...dependencies, ...peerDependencies })) {
      await installFrom(home, dependency);
    }
  }
});
