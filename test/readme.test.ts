import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "@jest/globals";
import ts from "typescript";
import { REPOSITORY } from "./support/repository";

const read = (path: string): string => readFileSync(join(REPOSITORY, path), "utf8");
const scripts = (JSON.parse(read("package.json")) as { scripts: Record<string, string> }).scripts;

/** The README of the repository and those of its folders. */
const READMES = ["README.md", "sql/README.md", "tools/README.md"].concat(
  readdirSync(join(REPOSITORY, "src")).map((name) => `src/${name}/README.md`),
);

/** The contents of a file's code blocks in a language. */
const blocks = (path: string, language: string): string[] =>
  [...read(path).matchAll(/^```(\w+)\n(.*?)^```$/gms)].filter(([, of]) => of === language).map(([, , text]) => text!);

describe.each(READMES)("%s", (path) => {
  test("its links lead somewhere in the repository", () => {
    const targets = [...read(path).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!);
    const local = targets.filter((target) => !/^https?:/.test(target));
    expect(local.filter((target) => !existsSync(join(REPOSITORY, dirname(path), target)))).toEqual([]);
  });

  test("the npm commands that it names exist", () => {
    const commands = [...read(path).matchAll(/npm (?:run )?([a-z:]+)(?: -- | -w |`|$)/gm)].map(([, name]) => name!);
    const known = [...Object.keys(scripts), "ci", "install", "pack", "generate"];
    expect(commands.filter((name) => !known.includes(name))).toEqual([]);
  });

  test("its TypeScript compiles against the packages", () => {
    const files = new Map(
      blocks(path, "ts").map((text, n) => [join(REPOSITORY, "test", `${path.replaceAll("/", "-")}-${n}.mts`), text]),
    );
    expect(problems(files)).toEqual([]);
  });
});

test("the README's policies are those of examples/quickstart, which npm start applies", () => {
  const [policies] = blocks("README.md", "hcl");
  expect(policies).toContain("workhorse_rate_limit_policies");
  expect(read("examples/quickstart/main.tf")).toContain(policies);
});

test("the README quotes npm start as it prints", () => {
  const [quoted] = blocks("README.md", "text");
  // test/start.test.ts holds the real output to the same.
  for (const line of ["Enqueueing 560 jobs of 121 customers, those of acme in front ... ", "limit       = 60 -> 600"]) {
    expect(quoted).toContain(line);
  }
  expect(quoted!.match(/^ok {2}/gm)).toHaveLength(7);
});

/** What the compiler says of these modules, by the compiler options of the repository. */
function problems(files: ReadonlyMap<string, string>): string[] {
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    skipLibCheck: true,
    types: ["node"],
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists, readFile } = host;
  host.fileExists = (name) => files.has(name) || fileExists(name);
  host.readFile = (name) => files.get(name) ?? readFile(name);
  host.getSourceFile = (name, version) => {
    const text = files.get(name);
    return text === undefined ? getSourceFile(name, version) : ts.createSourceFile(name, text, version);
  };
  const program = ts.createProgram([...files.keys()], options, host);
  return ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => {
    return `${file?.fileName.slice(REPOSITORY.length + 1)}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`;
  });
}
