import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import { type TerraformSandbox, type TerraformWorkspace, terraformSandbox } from "@workhorse/tools";
import { build, stop } from "esbuild";
import { stateOf } from "../../test/support";

describe("a second provider, of every feature, with the real Terraform", () => {
  let folder: string;
  let dir: string;
  let terraform: TerraformSandbox;
  let workspace: TerraformWorkspace;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "toy-test-"));
    const file = join(folder, "terraform-provider-toy");
    await build({
      entryPoints: [resolve(__dirname, "../../test/toy/main.ts")],
      outfile: file,
      bundle: true,
      platform: "node",
      target: "node20",
      format: "cjs",
      banner: { js: "#!/usr/bin/env node" },
    });
    await stop();
    await chmod(file, 0o755);
    terraform = await terraformSandbox({
      providers: [{ source: "registry.terraform.io/acme/toy", version: "1.0.0", file }],
    });
  });
  afterAll(async () => {
    try {
      await terraform?.dispose();
    } finally {
      await rm(folder, { recursive: true });
    }
  });
  beforeEach(async () => {
    dir = await mkdtemp(join(folder, "things-"));
    workspace = await terraform.workspace({ "main.tf": head() });
    await workspace.init();
  });

  const head = (where = JSON.stringify(dir)) =>
    `terraform {\n required_providers {\n toy = { source = "acme/toy" }\n }\n}\nprovider "toy" {\n dir = ${where}\n}\n`;
  const write = (text: string) => workspace.write({ "main.tf": `${head()}${text}` });
  const apply = async () => {
    const result = await workspace.apply();
    if (!result.ok) throw new Error(result.all);
    return result;
  };
  const noChange = async () => expect(await workspace.plan("-detailed-exitcode")).toMatchObject({ code: 0 });

  test("every kind of attribute is created, kept, updated and replaced", async () => {
    const config = (name: string, size: string, level = "") => `
      resource "toy_thing" "it" {
        name     = "${name}"
        size     = ${size}
        secret   = "hush"
        tags     = ["b", "a", "b"]
        pair     = ["x", true]
        extra    = { deep = [1, { deeper = "yes" }] }
        settings = { ${level} }
        rules    = [{ port = 80 }, { port = 443, note = "tls" }]
        owners   = [{ who = "ann" }, { who = "bob", role = "writer" }]
      }`;
    await write(config("one", "12345678901234567890123.5"));
    const plan = await workspace.planJson();
    expect(plan.resource_changes?.[0]?.change).toMatchObject({
      after: {
        labels: { made: "here" },
        settings: { mode: "fast" },
        rules: [
          { port: 80, note: "-" },
          { port: 443, note: "tls" },
        ],
      },
      after_unknown: { id: true, checksum: true, revision: true, settings: { level: true } },
    });
    await apply();
    const first = await stateOf(workspace, "toy_thing.it");
    expect(first).toMatchObject({
      id: "thing-one",
      secret: null,
      tags: ["a", "b"],
      extra: { deep: [1, { deeper: "yes" }] },
      settings: { mode: "fast", level: 0 },
      owners: expect.arrayContaining([
        { who: "ann", role: "reader" },
        { who: "bob", role: "writer" },
      ]),
      revision: 1,
    });
    expect(await readFile(join(workspace.dir, "terraform.tfstate"), "utf8")).toContain("12345678901234567890123.5");
    expect(await readFile(join(workspace.dir, "terraform.tfstate"), "utf8")).not.toContain("hush");
    await noChange();

    await write(config("one", "12345678901234567890124", 'mode = "slow", level = 3'));
    const update = await workspace.planJson();
    expect(update.resource_changes?.[0]?.change).toMatchObject({ actions: ["update"], after: { id: "thing-one" } });
    await apply();
    expect(await stateOf(workspace, "toy_thing.it")).toMatchObject({
      settings: { mode: "slow", level: 3 },
      revision: 2,
    });
    await noChange();

    await write(config("one", "1"));
    expect((await workspace.planJson()).resource_changes?.[0]?.change).toMatchObject({
      actions: ["delete", "create"],
      replace_paths: [["size"]],
    });
    await write(config("two", "1e30"));
    expect((await workspace.planJson()).resource_changes?.[0]?.change).toMatchObject({ replace_paths: [["name"]] });
    await apply();
    expect(await readdir(dir)).toEqual(["thing-two.txt"]);
    await noChange();
    expect(await workspace.destroy()).toMatchObject({ code: 0 });
    expect(await readdir(dir)).toEqual([]);
  });

  test("refuses and warns where it stands", async () => {
    await write(`resource "toy_thing" "it" {
      name     = "x"
      old      = true
      settings = { mode = "medium" }
      rules    = [{ port = 1 }, { port = 0.5 }]
    }`);
    const { text } = await workspace.validate();
    expect(text).toContain("Invalid value for settings.mode");
    expect(text).toContain('Got "medium"; accepted is one of "fast", "slow"');
    expect(text).toContain("Invalid value for rules[1].port");
    expect(text).toContain("Deprecated attribute: old");
  });

  test("an exception is one error, without what is sensitive; a failure in half keeps what holds", async () => {
    await write('resource "toy_thing" "it" { name = "boom" }');
    const boom = await workspace.apply();
    expect(boom.text).toContain("The provider failed unexpectedly");
    expect(boom.text).toContain("a fault that quotes (sensitive value)/hunter2");
    expect(boom.text).not.toContain(dir);
    await write('resource "toy_thing" "it" { name = "half" }');
    expect((await workspace.apply()).text).toContain("Only half done");
    expect(await stateOf(workspace, "toy_thing.it")).toMatchObject({ id: "thing-half" });
  });

  test("what is not yet known plans cleanly, the provider's own configuration included", async () => {
    await workspace.write({
      "main.tf": `${head("terraform_data.dir.output")}
        resource "terraform_data" "dir" { input = ${JSON.stringify(dir)} }
        resource "toy_thing" "it" {
          name  = "n-\${terraform_data.dir.id}"
          tags  = [terraform_data.dir.id]
          rules = [for port in [80] : { port = port, note = terraform_data.dir.id }]
          extra = terraform_data.dir.output
        }
        output "known" { value = provider::toy::is_known(terraform_data.dir.output) }`,
    });
    const plan = await workspace.planJson();
    expect(plan.output_changes?.known?.after_unknown).toBe(true);
    await apply();
    expect(await readdir(dir)).toHaveLength(1);
    await noChange();
  });

  test("upgrades states of older schema versions, and refuses newer ones", async () => {
    await write('resource "toy_thing" "it" { name = "one" }');
    await apply();
    const file = join(workspace.dir, "terraform.tfstate");
    const state = JSON.parse(await readFile(file, "utf8"));
    const [instance] = state.resources[0].instances;
    instance.schema_version = 0;
    instance.attributes = { id: "thing-one", title: "one" };
    await writeFile(file, JSON.stringify({ ...state, serial: 10 }));
    await apply();
    expect(await stateOf(workspace, "toy_thing.it")).toMatchObject({ id: "thing-one", name: "one" });
    instance.schema_version = 2;
    await writeFile(file, JSON.stringify({ ...state, serial: 20 }));
    const newer = await workspace.plan();
    expect(newer.code).toBe(1);
  });

  test("imports, forgets what is gone, reads data and calls functions", async () => {
    await writeFile(join(dir, "thing-old.txt"), "old");
    await write('resource "toy_thing" "it" { name = "old" }');
    expect(await workspace.run(["import", "-input=false", "toy_thing.it", "thing-old"])).toMatchObject({ code: 0 });
    expect((await workspace.run(["import", "-input=false", "toy_thing.that", "none"])).code).toBe(1);
    await apply();
    await rm(join(dir, "thing-old.txt"));
    expect((await workspace.planJson()).resource_changes?.[0]?.change.actions).toEqual(["create"]);
    await write(`
      data "toy_echo" "it" { value = { a = [1.25, null, "x"] } }
      output "same" { value = data.toy_echo.it.same }
      output "joined" { value = provider::toy::join("-", "a", null, "b") }`);
    await apply();
    const { values } = await workspace.show();
    expect(values?.outputs?.same?.value).toEqual({ a: [1.25, null, "x"] });
    expect(values?.outputs?.joined?.value).toBe("a-b");
    await write('output "bad" { value = provider::toy::join("", "a") }');
    expect((await workspace.plan()).text).toContain("the separator is empty");
  });
});
