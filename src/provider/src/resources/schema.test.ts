import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import type { TerraformSandbox } from "@workhorse/tools";
import { type TestDatabase, testDatabase } from "../../../../test/support/database";
import { testTerraform } from "../../../../test/support/terraform";
import { HEAD, stateOf } from "../../test/support";

describe("workhorse_schema with the real Terraform", () => {
  let database: TestDatabase;
  let terraform: TerraformSandbox;

  beforeAll(async () => {
    database = await testDatabase({ schema: false });
    terraform = await testTerraform({ env: { WORKHORSE_DATABASE_URL: database.url } });
  });
  afterAll(async () => {
    try {
      await terraform?.dispose();
    } finally {
      await database?.drop();
    }
  });

  const schemaExists = async () =>
    (await database.pool.query("SELECT to_regclass('workhorse.job') IS NOT NULL AS found")).rows[0].found as boolean;

  test("installs, shows no change afterwards, is retained or dropped, and is adopted where it is", async () => {
    const workspace = await terraform.workspace({ "main.tf": `${HEAD} resource "workhorse_schema" "it" {}` });
    await workspace.init();
    const plan = await workspace.planJson();
    expect(plan.resource_changes?.[0]?.change.after).toEqual({ id: "workhorse", version: "1.0", on_destroy: "retain" });
    expect(await workspace.apply()).toMatchObject({ code: 0 });
    expect(await schemaExists()).toBe(true);
    expect(await stateOf(workspace, "workhorse_schema.it")).toMatchObject({ version: "1.0", on_destroy: "retain" });
    expect(await workspace.plan("-detailed-exitcode")).toMatchObject({ code: 0 });

    const destroyed = await workspace.destroy();
    expect(destroyed).toMatchObject({ code: 0 });
    expect(destroyed.text).toContain("The schema workhorse stays in the database");
    expect(await schemaExists()).toBe(true);

    await workspace.write({ "main.tf": `${HEAD} resource "workhorse_schema" "it" { on_destroy = "drop" }` });
    expect(await workspace.apply()).toMatchObject({ code: 0 });
    await database.pool.query(`SELECT workhorse.enqueue_v1('[{"type": "t"}]')`);
    const refused = await workspace.destroy();
    expect(refused.code).toBe(1);
    expect(refused.text).toContain("still has 1 unfinished jobs");
    expect(await schemaExists()).toBe(true);
    await database.pool.query("DELETE FROM workhorse.job");
    expect(await workspace.destroy()).toMatchObject({ code: 0 });
    expect(await schemaExists()).toBe(false);
  });
});
