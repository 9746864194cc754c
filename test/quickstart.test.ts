import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { Queue } from "@workhorse/queue";
import type { TerraformSandbox, TerraformWorkspace } from "@workhorse/tools";
import { type TestDatabase, testDatabase } from "./support/database";
import { REPOSITORY } from "./support/repository";
import { testTerraform } from "./support/terraform";

const QUICKSTART = join(REPOSITORY, "examples/quickstart");

const PER_MINUTE = { intervalMs: 60_000 };
const providerApi = {
  queue: "provider-api",
  namespace: "billing",
  rate: { ...PER_MINUTE, limit: 60, burst: 10 },
  perKey: { ...PER_MINUTE, limit: 5, burst: 2 },
};
const mail = { queue: "mail", namespace: "billing", maxActive: 4, maxActivePerKey: 1 };

describe("examples/quickstart", () => {
  let database: TestDatabase;
  let terraform: TerraformSandbox;
  let workspace: TerraformWorkspace;
  beforeAll(async () => {
    database = await testDatabase({ schema: false });
    terraform = await testTerraform({ env: { WORKHORSE_DATABASE_URL: database.url } });
    workspace = await terraform.workspace({}, { copyOf: QUICKSTART });
    await workspace.init();
  });
  afterAll(async () => {
    await terraform?.dispose();
    await database?.drop();
  });

  test("is formatted", async () => {
    await promisify(execFile)(terraform.cli.file, ["fmt", "-check", "-diff", "-recursive", QUICKSTART]);
  });

  test("declares what npm start and the README say, and then has nothing more to change", async () => {
    const applied = await workspace.apply();
    expect(applied).toMatchObject({ ok: true, text: expect.stringContaining("Resources: 3 added, 0 changed") });

    const queue = new Queue(database.pool);
    expect(await queue.listRateLimitPolicies()).toEqual([{ ...providerApi, updatedAt: expect.any(Date) }]);
    expect(await queue.listConcurrencyPolicies()).toEqual([{ ...mail, updatedAt: expect.any(Date) }]);
    expect((await workspace.show()).values?.outputs).toMatchObject({
      limits: { value: { "provider-api": "60 starts per 60 s", mail: "4 at once" } },
    });

    const again = await workspace.plan("-detailed-exitcode");
    expect(again).toMatchObject({ code: 0, text: expect.stringContaining("No changes.") });
  });

  test("gives the policies up again, and leaves the jobs' schema in place", async () => {
    const destroyed = await workspace.destroy();
    expect(destroyed).toMatchObject({ ok: true, text: expect.stringContaining("Resources: 3 destroyed") });
    const queue = new Queue(database.pool);
    expect(await queue.listRateLimitPolicies()).toEqual([]);
    expect(await queue.listConcurrencyPolicies()).toEqual([]);
  });
});
