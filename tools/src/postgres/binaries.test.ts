import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { findBinaries, runnable } from "./binaries";

describe("PostgreSQL's programs", () => {
  let folder: string;
  let source: string;
  let target: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "workhorse-test-"));
    [source, target] = [join(folder, "private/native"), join(folder, "copy")];
    await mkdir(join(source, "bin"), { recursive: true });
    await mkdir(join(source, "lib"));
    await writeFile(join(source, "bin/postgres"), "program");
    await writeFile(join(source, "bin/initdb"), "program");
    await writeFile(join(source, "lib/libpq.so.5"), "library");
    // whatever the umask is
    for (const path of ["../..", "..", ".", "bin", "bin/postgres", "bin/initdb", "lib", "lib/libpq.so.5"]) {
      await chmod(join(source, path), 0o755);
    }
    await writeFile(join(source, "lib/libpq.a"), "static");
    await symlink("libpq.so.5", join(source, "lib/libpq.so"));
    await writeFile(
      join(source, "pg-symlinks.json"),
      JSON.stringify([{ source: "native/lib/libpq.so.5", target: "native/lib/libpq.so" }]),
    );
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  const NOBODY = { uid: 65_534, gid: 65_534 };
  const mode = (path: string) => statSync(path).mode & 0o777;

  test("are used in place if they are complete and the account can enter", async () => {
    expect(await runnable(source, undefined, target)).toBe(source);
    expect(await runnable(source, NOBODY, target)).toBe(source);
    expect(existsSync(target)).toBe(false);
  });

  test("get the symlinks that npm left out", async () => {
    await rm(join(source, "lib/libpq.so"));
    expect(await runnable(source, undefined, target)).toBe(target);
    expect(readFileSync(join(target, "lib/libpq.so"), "utf8")).toBe("library");
    expect(readdirSync(join(target, "lib")).sort()).toEqual(["libpq.so", "libpq.so.5"]);
  });

  test("are copied for an account that cannot enter", async () => {
    await chmod(join(folder, "private"), 0o700);
    expect(await runnable(source, NOBODY, target)).toBe(target);
    expect([mode(target), mode(join(target, "bin")), mode(join(target, "bin/postgres"))]).toEqual([
      0o755, 0o755, 0o755,
    ]);
    expect(readlinkSync(join(target, "lib/libpq.so"))).toBe("libpq.so.5");
  });

  test("are copied, and left as they were, if only their owner may read or nobody run them", async () => {
    await chmod(join(source, "bin/postgres"), 0o600);
    await chmod(join(source, "lib/libpq.so.5"), 0o600);
    for (const account of [undefined, NOBODY]) {
      expect(await runnable(source, account, target)).toBe(target);
      expect([mode(join(target, "bin/postgres")), mode(join(target, "lib/libpq.so.5"))]).toEqual([0o755, 0o644]);
      expect([mode(join(source, "bin/postgres")), mode(join(source, "lib/libpq.so.5"))]).toEqual([0o600, 0o600]);
      await rm(target, { recursive: true });
    }
  });

  test("an unknown major is refused", async () => {
    await expect(findBinaries(14)).rejects.toThrow("PostgreSQL 14: accepted majors are 15, 16, 17, 18");
  });
});
