import { existsSync, lstatSync, readlinkSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { findBinaries, runnable } from "./binaries";

describe("PostgreSQL's programs", () => {
  let folder: string;
  let source: string;
  let temporary: string;
  let fallback: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "workhorse-test-"));
    [source, temporary, fallback] = [join(folder, "native"), join(folder, "tmp"), join(folder, "own")];
    await mkdir(join(source, "bin"), { recursive: true });
    await mkdir(join(source, "lib"));
    await mkdir(temporary);
    await mkdir(fallback);
    await writeFile(join(source, "bin/postgres"), "program", { mode: 0o644 });
    await writeFile(join(source, "lib/libpq.so.5"), "library");
    await writeFile(join(source, "lib/libpq.a"), "static");
    await writeFile(
      join(source, "pg-symlinks.json"),
      JSON.stringify([{ source: "native/lib/libpq.so.5", target: "native/lib/libpq.so" }]),
    );
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  const prepare = (account?: { uid: number; gid: number }) => runnable(source, account, fallback, temporary);

  test("are used in place if they are complete and the account can enter", async () => {
    await symlink("libpq.so.5", join(source, "lib/libpq.so"));
    expect(await prepare()).toBe(source);
    expect(await readdir(temporary)).toEqual([]);
  });

  test("are copied, with symlinks, when npm left those out", async () => {
    const copies = await Promise.all([prepare(), prepare(), prepare()]);
    const [copy] = copies;
    expect(copies).toEqual([copy, copy, copy]);
    expect(readlinkSync(join(copy!, "lib/libpq.so"))).toBe("libpq.so.5");
    expect(lstatSync(join(copy!, "bin/postgres")).mode & 0o777).toBe(0o755);
    expect(existsSync(join(copy!, "lib/libpq.a"))).toBe(false);
    expect(await readdir(temporary)).toHaveLength(1);
    expect(await prepare()).toBe(copy);
  });

  test("are copied to where another account can enter", async () => {
    await symlink("libpq.so.5", join(source, "lib/libpq.so"));
    await chmod(folder, 0o700);
    const copy = await prepare({ uid: 65_534, gid: 65_534 });
    expect(copy.startsWith(temporary)).toBe(true);
    expect(lstatSync(copy).mode & 0o777).toBe(0o755);
  });

  test("a damaged copy is made anew", async () => {
    const copy = await prepare();
    await rm(join(copy, "bin/postgres"));
    expect(await prepare()).toBe(copy);
    expect(await readFile(join(copy, "bin/postgres"), "utf8")).toBe("program");
    expect(await readdir(temporary)).toHaveLength(1);
  });

  test("a copy that others could have changed is neither used nor in the way", async () => {
    const copy = await prepare();
    await writeFile(join(copy, "bin/postgres"), "trojan!");
    await chmod(copy, 0o777);
    const own = await prepare();
    expect(own).toBe(join(fallback, "postgres"));
    expect(await readFile(join(own, "bin/postgres"), "utf8")).toBe("program");
  });

  test("an unknown major is refused", async () => {
    await expect(findBinaries(14)).rejects.toThrow("PostgreSQL 14: accepted majors are 15, 16, 17, 18");
  });
});
