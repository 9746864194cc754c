import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "@jest/globals";

const PACKAGE = resolve(__dirname, "../..");

async function contents(folder: string): Promise<Record<string, string>> {
  const files = (await readdir(folder, { recursive: true })).filter((file) => file.endsWith(".ts")).sort();
  return Object.fromEntries(
    await Promise.all(files.map(async (file) => [file, await readFile(join(folder, file), "utf8")] as const)),
  );
}

test("the generated protocol code is what its sources give (npm run generate -w terraform-provider-workhorse)", async () => {
  const folder = await mkdtemp(join(tmpdir(), "generate-"));
  try {
    const buf = join(dirname(require.resolve("@bufbuild/buf/package.json")), "bin/buf");
    await promisify(execFile)(process.execPath, [buf, "generate", "--output", folder], { cwd: PACKAGE });
    const fresh = await contents(join(folder, "src/plugin/generated"));
    const committed = await contents(join(PACKAGE, "src/plugin/generated"));
    expect(Object.keys(committed)).toEqual(Object.keys(fresh));
    for (const file of Object.keys(fresh))
      expect(committed[file] === fresh[file] ? "current" : `${file} is stale`).toBe("current");
  } finally {
    await rm(folder, { recursive: true });
  }
});
