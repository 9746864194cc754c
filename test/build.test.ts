import { execFile } from "node:child_process";
import { copyFile, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "@jest/globals";
import { REPOSITORY } from "./support/repository";

const PROVIDER = join(REPOSITORY, "dist/terraform-provider-workhorse");

describe("the built provider", () => {
  test("is one executable file that needs nothing beside Node.js", async () => {
    expect((await stat(PROVIDER)).mode & 0o777).toBe(0o755);
    const text = await readFile(PROVIDER, "utf8");
    expect(text.split("\n")[0]).toBe("#!/usr/bin/env node");
    const required = [...text.matchAll(/\b(?:require|import)\("([^"]+)"\)/g)].map(([, name]) => name!);
    expect([...new Set(required.filter((name) => !isBuiltin(name)))]).toEqual(["pg-native"]); // pg does without it
  });

  test("tells a person who starts it what it is, wherever it lies", async () => {
    const folder = await mkdtemp(join(tmpdir(), "workhorse-test-"));
    try {
      const copy = join(folder, "terraform-provider-workhorse");
      await copyFile(PROVIDER, copy);
      const started = await new Promise<{ code: unknown; stderr: string; stdout: string }>((resolve) =>
        execFile(copy, { env: { PATH: process.env.PATH }, cwd: folder }, (error, stdout, stderr) =>
          resolve({ code: error?.code ?? 0, stdout, stderr }),
        ),
      );
      expect(started).toEqual({ code: 1, stdout: "", stderr: expect.stringContaining("Terraform") });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
