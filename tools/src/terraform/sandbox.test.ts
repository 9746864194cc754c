import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { isRunning } from "../process";
import { type SandboxOptions, type TerraformSandbox, terraformSandbox } from ".";

const DATA = `
resource "terraform_data" "one" { input = "value" }
output "one" { value = terraform_data.one.output }
`;

describe("the Terraform sandbox", () => {
  let folder: string;
  let sandboxes: TerraformSandbox[];

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "workhorse-test-"));
    sandboxes = [];
  });
  afterEach(async () => {
    await Promise.allSettled(sandboxes.map((sandbox) => sandbox.dispose()));
    await rm(folder, { recursive: true, force: true });
  });

  async function sandboxWith(options: SandboxOptions = { providers: [] }): Promise<TerraformSandbox> {
    const sandbox = await terraformSandbox(options);
    sandboxes.push(sandbox);
    return sandbox;
  }

  /** A program in the place of a provider. */
  async function program(text: string) {
    const file = join(folder, "provider");
    await writeFile(file, text);
    await chmod(file, 0o755);
    return { source: "registry.terraform.io/acme/toy", version: "1.2.3", file };
  }

  const TOY = `
terraform {
  required_providers {
    toy = { source = "acme/toy" }
  }
}
provider "toy" {}
`;

  test("runs the whole cycle and reads plan and state", async () => {
    const workspace = await (await sandboxWith()).workspace({ "main.tf": DATA });
    await workspace.init();
    const plan = await workspace.planJson();
    expect(plan.resource_changes?.map(({ address, change }) => [address, change.actions])).toEqual([
      ["terraform_data.one", ["create"]],
    ]);
    expect(await workspace.apply()).toMatchObject({ ok: true, code: 0 });
    expect((await workspace.show()).values?.outputs).toMatchObject({ one: { value: "value" } });
    expect((await workspace.plan("-detailed-exitcode")).code).toBe(0);
    await workspace.write({ "main.tf": DATA.replace('"value"', '"other"') });
    expect((await workspace.plan("-detailed-exitcode")).code).toBe(2);
    expect((await workspace.destroy()).text).toContain("Resources: 1 destroyed.");
  });

  test("a workspace can begin as a copy, without what Terraform kept there", async () => {
    const sandbox = await sandboxWith();
    const first = await sandbox.workspace({ "main.tf": DATA, "modules/m/main.tf": "" });
    await first.init();
    await first.apply();
    const second = await sandbox.workspace({ "more.tf": 'output "two" { value = 2 }' }, { copyOf: first.dir });
    await second.init();
    expect((await second.plan()).text).toContain("1 to add, 0 to change, 0 to destroy");
    expect(existsSync(join(second.dir, "modules/m/main.tf"))).toBe(true);
  });

  test("a failure is a result with plain text, except where a value was asked for", async () => {
    const workspace = await (await sandboxWith()).workspace({ "main.tf": "resource" });
    const result = await workspace.validate();
    expect(result.ok).toBe(false);
    expect(result.text).toMatch(/^Error: Argument or block definition required/);
    await expect(workspace.init()).rejects.toThrow(
      /terraform init ended with status 1:[\s\S]*Argument or block definition required/,
    );
    await expect(workspace.planJson()).rejects.toThrow(/terraform plan ended with status 1:/);
  });

  test("gives providers from the mirror, and no other", async () => {
    const sandbox = await sandboxWith({ providers: [await program("#!/bin/sh\necho this is no provider\n")] });
    const workspace = await sandbox.workspace({ "main.tf": TOY });
    expect((await workspace.init()).text).toContain("Installed acme/toy v1.2.3");
    expect((await workspace.plan()).text).toContain("this is no provider");
    const other = await sandbox.workspace({ "main.tf": TOY.replace("acme/toy", "hashicorp/null") });
    await expect(other.init()).rejects.toThrow(/provider registry.terraform.io\/hashicorp\/null was not\s+found/);
  });

  test("a provider that was not built is named with what to do", async () => {
    const file = join(folder, "absent");
    const providers = [{ source: "registry.terraform.io/acme/toy", version: "1.0.0", file }];
    await expect(terraformSandbox({ providers })).rejects.toThrow(`No provider at ${file}: run "npm run build" first`);
  });

  test("lets none of the caller's variables in, but those that are given", async () => {
    const shown = await program('#!/bin/sh\nenv > "$SHOW_TO"\n');
    const secret = { WORKHORSE_DATABASE_URL: "x", DATABASE_URL: "x", PGHOST: "x", TF_LOG: "trace", TF_VAR_a: "x" };
    Object.assign(process.env, secret);
    try {
      const sandbox = await sandboxWith({ providers: [shown], env: { SHOW_TO: join(folder, "env"), PGUSER: "given" } });
      const workspace = await sandbox.workspace({ "main.tf": TOY });
      await workspace.init();
      await workspace.run(["plan"], { env: { PGPORT: "1" } });
    } finally {
      for (const name of Object.keys(secret)) {
        delete process.env[name];
      }
    }
    const names = (await readFile(join(folder, "env"), "utf8")).split("\n").map((line) => line.split("=")[0]);
    expect(names.filter((name) => /^(WORKHORSE|DATABASE|PG|TF_LOG|TF_VAR)/.test(name!)).sort()).toEqual([
      "PGPORT",
      "PGUSER",
    ]);
  });

  /** A provider that says hello by a file and then never answers, nor ends by itself. */
  const HANGING = '#!/bin/sh\ntrap "" INT TERM\necho $$ > "$SAY_TO"\nwhile :; do read -r _ < "$FIFO"; done\n';

  async function hanging() {
    const env = { SAY_TO: join(folder, "pid"), FIFO: join(folder, "fifo") };
    const mkfifo = spawn("mkfifo", [env.FIFO, env.SAY_TO]);
    await once(mkfifo, "exit");
    return { providers: [await program(HANGING)], env };
  }

  async function readPid(): Promise<number> {
    return Number(await readFile(join(folder, "pid"), "utf8")); // a pipe: waits for its writer
  }

  test("aborting kills Terraform and the provider below it", async () => {
    const sandbox = await sandboxWith(await hanging());
    const workspace = await sandbox.workspace({ "main.tf": TOY });
    await workspace.init();
    const controller = new AbortController();
    const run = workspace.run(["plan"], { signal: controller.signal });
    const provider = await readPid();
    const rejection = expect(run).rejects.toThrow("enough");
    controller.abort(new Error("enough"));
    await rejection;
    await sandbox.dispose();
    expect(await isRunning(provider)).toBe(false);
  });

  test("disposing kills what still runs and removes the files", async () => {
    const sandbox = await sandboxWith(await hanging());
    const workspace = await sandbox.workspace({ "main.tf": TOY });
    await workspace.init();
    const rejection = expect(workspace.plan()).rejects.toThrow("disposed");
    const provider = await readPid();
    await sandbox.dispose();
    await rejection;
    expect(await isRunning(provider)).toBe(false);
    expect(existsSync(workspace.dir)).toBe(false);
  });

  test("disposing tells of a socket that a provider left", async () => {
    const sandbox = await sandboxWith({ providers: [await program('#!/bin/sh\n: > "$TMPDIR/left-socket"\n')] });
    const workspace = await sandbox.workspace({ "main.tf": TOY });
    await workspace.init();
    await workspace.plan();
    await expect(sandbox.dispose()).rejects.toThrow("left temporary files: left-socket");
    expect(existsSync(dirname(workspace.dir))).toBe(false);
  });

  test("without terraform on the PATH says so", async () => {
    const path = process.env.PATH;
    process.env.PATH = folder;
    try {
      await expect(terraformSandbox({ providers: [] })).rejects.toThrow(
        /^terraform was not found on the PATH: install/,
      );
    } finally {
      process.env.PATH = path;
    }
  });
});
