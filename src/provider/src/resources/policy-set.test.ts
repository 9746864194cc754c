import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import type { TerraformSandbox, TerraformWorkspace } from "@workhorse/tools";
import { type TestDatabase, testDatabase } from "../../../../test/support/database";
import { testTerraform } from "../../../../test/support/terraform";
import { HEAD, stateOf } from "../../test/support";

const rate = (limit: number, intervalMs = 60_000, burst = 1) =>
  `{ rate = { limit = ${limit}, interval_ms = ${intervalMs}, burst = ${burst} } }`;
const cap = (max: number) => `{ max_active = ${max} }`;

/** A configuration with one set. */
function config(type: string, body: string): Record<string, string> {
  return { "main.tf": `${HEAD}\nresource "${type}" "it" {\n${body}\n}\n` };
}

const kinds = [
  {
    type: "workhorse_rate_limit_policies",
    name: "rate-limit",
    table: "workhorse.rate_limit_policy",
    column: "rate_limit",
    sync: "workhorse.sync_rate_limit_policies_v1",
    policy: (n: number) => rate(n),
    definition: (queue: string, n: number) => ({ queue, rate: { limit: n, intervalMs: 60_000, burst: 1 } }),
    state: (n: number) => ({ rate: { limit: n, interval_ms: 60_000, burst: 1 }, per_key: null }),
  },
  {
    type: "workhorse_concurrency_policies",
    name: "concurrency",
    table: "workhorse.concurrency_policy",
    column: "max_active",
    sync: "workhorse.sync_concurrency_policies_v1",
    policy: (n: number) => cap(n),
    definition: (queue: string, n: number) => ({ queue, maxActive: n }),
    state: (n: number) => ({ max_active: n, max_active_per_key: null }),
  },
];

describe.each(kinds)("$type with the real Terraform", (kind) => {
  let database: TestDatabase;
  let terraform: TerraformSandbox;
  let workspace: TerraformWorkspace;

  beforeAll(async () => {
    database = await testDatabase();
    terraform = await testTerraform({ env: { WORKHORSE_DATABASE_URL: database.url } });
  });
  afterAll(async () => {
    try {
      await terraform?.dispose();
    } finally {
      await database?.drop();
    }
  });
  beforeEach(async () => {
    await database.pool.query(
      `SELECT ${kind.sync}(namespace, '[]') FROM (SELECT DISTINCT namespace FROM ${kind.table}) n`,
    );
    workspace = await terraform.workspace({ "main.tf": HEAD });
    await workspace.init();
  });

  const write = (body: string) => workspace.write(config(kind.type, body));
  const set = (namespace: string, policies: Record<string, number>, more = "") => {
    const entries = Object.entries(policies).map(([queue, n]) => `${JSON.stringify(queue)} = ${kind.policy(n)}`);
    return write(`namespace = ${JSON.stringify(namespace)}\npolicies = {\n${entries.join("\n")}\n}\n${more}`);
  };
  const sync = (namespace: string, policies: Record<string, number>, prune = true) =>
    database.pool.query(`SELECT ${kind.sync}($1, $2, $3)`, [
      namespace,
      JSON.stringify(Object.entries(policies).map(([queue, n]) => kind.definition(queue, n))),
      prune,
    ]);
  const stored = async () => {
    const { rows } = await database.pool.query(
      `SELECT namespace, queue_name, ${kind.column} AS n FROM ${kind.table} ORDER BY namespace, queue_name`,
    );
    return rows.map((row) => `${row.namespace}/${row.queue_name}=${row.n}`);
  };
  const state = () => stateOf(workspace, `${kind.type}.it`);
  const noChange = async () => expect(await workspace.plan("-detailed-exitcode")).toMatchObject({ code: 0 });
  const applied = async (...args: string[]) => {
    const result = await workspace.apply(...args);
    if (!result.ok) throw new Error(result.all);
    return result;
  };

  test("creates, plans no change, updates, and removes what left the map", async () => {
    await set("team", { mail: 5, sms: 7 });
    const plan = await workspace.planJson();
    expect(plan.resource_changes?.[0]?.change.after).toEqual({
      id: "team",
      namespace: "team",
      policies: { mail: kind.state(5), sms: kind.state(7) },
      prune: true,
      pruned: [],
    });
    await applied();
    expect(await stored()).toEqual(["team/mail=5", "team/sms=7"]);
    await noChange();

    await set("team", { mail: 6 });
    const update = await workspace.planJson();
    expect(update.resource_changes?.[0]?.change).toMatchObject({ actions: ["update"], after: { pruned: ["sms"] } });
    await applied();
    expect(await stored()).toEqual(["team/mail=6"]);
    expect(await state()).toMatchObject({ policies: { mail: kind.state(6) }, pruned: ["sms"] });
    await noChange();

    expect(await workspace.destroy()).toMatchObject({ code: 0 });
    expect(await stored()).toEqual([]);
  });

  test("shows drift: a policy changed, added or removed behind Terraform's back", async () => {
    await set("team", { mail: 5, sms: 7 });
    await applied();
    await sync("team", { mail: 9, fax: 3 });
    const plan = await workspace.planJson();
    expect(plan.resource_drift?.[0]?.change.after).toMatchObject({
      policies: { mail: kind.state(9), fax: kind.state(3) },
    });
    expect(plan.resource_changes?.[0]?.change).toMatchObject({
      actions: ["update"],
      after: { policies: { mail: kind.state(5), sms: kind.state(7) }, pruned: ["fax"] },
    });
    await applied();
    expect(await stored()).toEqual(["team/mail=5", "team/sms=7"]);
    await noChange();
  });

  test("names the owner of a queue at plan, and again at apply", async () => {
    await sync("other", { mail: 1 });
    await set("team", { mail: 5 });
    const plan = await workspace.plan();
    expect(plan.code).toBe(1);
    expect(plan.text).toContain('Queue "mail" is owned by namespace "other"');

    await sync("other", {});
    await workspace.run(["plan", "-input=false", "-out=create.tfplan"]);
    await sync("other", { mail: 1 });
    const apply = await workspace.run(["apply", "-input=false", "create.tfplan"]);
    expect(apply.code).toBe(1);
    expect(apply.text).toContain('Queue "mail" is owned by namespace "other"');
    expect(await stored()).toEqual(["other/mail=1"]);
  });

  test("imports a namespace by its name; what does not exist is an error", async () => {
    await sync("a/b%", { mail: 5 });
    await set("a/b%", { mail: 5 });
    expect(await workspace.run(["import", "-input=false", `${kind.type}.it`, "a/b%"])).toMatchObject({ code: 0 });
    await noChange();
    await set("none", { mail: 5 });
    await workspace.run(["state", "rm", `${kind.type}.it`]);
    const missing = await workspace.run(["import", "-input=false", `${kind.type}.it`, "none"]);
    expect(missing.code).toBe(1);
    expect(missing.text).toContain(`Namespace "none" has no ${kind.name} policies`);
  });

  // What follows is the same code for every kind.
  if (kind !== kinds[0]) return;

  test("shows and warns of what a create over an existing namespace removes", async () => {
    await sync("team", { old: 1, older: 2 });
    await set("team", { mail: 5 });
    const plan = await workspace.plan();
    expect(plan.text).toContain(`Creating this removes ${kind.name} policies of namespace "team"`);
    expect(plan.text).toContain('removed: "old", "older"');
    expect((await workspace.planJson()).resource_changes?.[0]?.change.after).toMatchObject({
      pruned: ["old", "older"],
    });
    await applied();
    expect(await stored()).toEqual(["team/mail=5"]);
  });

  test("never removes what the plan did not show", async () => {
    await set("team", { mail: 5 });
    await workspace.run(["plan", "-input=false", "-out=create.tfplan"]);
    await sync("team", { late: 1 });
    const create = await applied("create.tfplan").catch((error: Error) => error.message);
    expect(create).toMatch(/inconsistent final plan/);
    expect(await stored()).toEqual(["team/late=1"]);
    await applied();
    expect(await stored()).toEqual(["team/mail=5"]);

    await set("team", { mail: 6 });
    await workspace.run(["plan", "-input=false", "-out=update.tfplan"]);
    await sync("team", { mail: 5, late: 1 });
    const update = await applied("update.tfplan").catch((error: Error) => error.message);
    expect(update).toMatch(/inconsistent final plan|changed since the plan/);
    expect(await stored()).toEqual(["team/late=1", "team/mail=5"]);
  });

  test("refuses an update when a policy was changed after the plan", async () => {
    await set("team", { mail: 5 });
    await applied();
    await set("team", { mail: 6 });
    await workspace.run(["plan", "-input=false", "-out=update.tfplan"]);
    await sync("team", { mail: 7 });
    const update = await workspace.run(["apply", "-input=false", "update.tfplan"]);
    expect(update.code).toBe(1);
    expect(update.text).toContain(`policies of namespace "team" changed since the plan`);
    expect(update.text).toContain('"mail" was changed');
    expect(await stored()).toEqual(["team/mail=7"]);
  });

  test("without prune leaves others alone, and still removes what left the map", async () => {
    await sync("team", { other: 1 });
    await set("team", { mail: 5, sms: 7 }, "prune = false");
    await applied();
    expect(await stored()).toEqual(["team/mail=5", "team/other=1", "team/sms=7"]);
    await noChange();
    await set("team", { mail: 5 }, "prune = false");
    await applied();
    expect(await stored()).toEqual(["team/mail=5", "team/other=1"]);
    expect(await state()).toMatchObject({ pruned: ["sms"] });
    expect(await workspace.destroy()).toMatchObject({ code: 0 });
    expect(await stored()).toEqual(["team/other=1"]);
  });

  test("turning prune off removes nothing and says so; turning it on shows what it removes", async () => {
    await set("team", { mail: 5 });
    await applied();
    await sync("team", { mail: 5, other: 1 });
    await set("team", { mail: 5 }, "prune = false");
    const off = await applied();
    expect(off.text).toContain(`prune is turned off for the ${kind.name} policies of namespace "team"`);
    expect(off.text).toContain('the policies of "other" stay');
    expect(await stored()).toEqual(["team/mail=5", "team/other=1"]);
    await noChange();
    await set("team", { mail: 5 });
    expect((await workspace.planJson()).resource_changes?.[0]?.change.after).toMatchObject({ pruned: ["other"] });
    const on = await applied();
    expect(on.text).toContain(`Changing this removes ${kind.name} policies of namespace "team"`);
    expect(on.text).toContain('removed: "other"');
    expect(await stored()).toEqual(["team/mail=5"]);
  });

  test("a changed namespace moves the queues in place", async () => {
    await sync("old", { foreign: 3 });
    await set("old", { mail: 5, sms: 7 }, "prune = false");
    await applied();
    await set("new", { mail: 5, fax: 1 }, "prune = false");
    const plan = await workspace.planJson();
    expect(plan.resource_changes?.[0]?.change).toMatchObject({
      actions: ["update"],
      after: { id: "new", namespace: "new", pruned: ["sms"] },
    });
    await applied();
    expect(await stored()).toEqual(["new/fax=1", "new/mail=5", "old/foreign=3"]);
    await noChange();
  });

  test("an empty map with prune is an update that removes everything, with a warning", async () => {
    await set("team", { mail: 5 });
    await applied();
    await set("team", {});
    const result = await applied();
    expect(result.text).toContain(`Namespace "team" is left without ${kind.name} policies`);
    expect(result.text).toContain("1 changed, 0 destroyed");
    expect(await stored()).toEqual([]);
    await noChange();
  });

  test("takes queue names with every odd character", async () => {
    const odd = ["a/b%c", 'quote"', "new\nline", "😀", "$" + "{x}", "x".repeat(256), "__proto__", "10", "constructor"];
    const entries = odd.map((queue) => `${JSON.stringify(queue).replaceAll("${", () => "$${")} = ${kind.policy(2)}`);
    await write(`namespace = "odd"\npolicies = {\n${entries.join("\n")}\n}`);
    await applied();
    const { rows } = await database.pool.query(`SELECT queue_name FROM ${kind.table} WHERE namespace = 'odd'`);
    expect(rows.map((row) => row.queue_name).sort()).toEqual([...odd].sort());
    await noChange();
  });

  test("a database without the schema counts as empty at plan, and is an error at apply", async () => {
    const bare = await testDatabase({ schema: false });
    try {
      const options = { env: { WORKHORSE_DATABASE_URL: bare.url } };
      await set("team", { mail: 5 });
      const plan = await workspace.run(["plan", "-input=false"], options);
      expect(plan).toMatchObject({ code: 0 });
      expect(plan.text).toContain('Workhorse is not installed yet, so namespace "team" counts as empty');
      expect(plan.text).toContain("depends_on");
      const apply = await workspace.run(["apply", "-input=false", "-auto-approve"], options);
      expect(apply.code).toBe(1);
      expect(apply.text).toContain("Workhorse is not installed at");
    } finally {
      await bare.drop();
    }
  });
});
