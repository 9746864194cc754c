import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import type { TerraformSandbox, TerraformWorkspace } from "@workhorse/tools";
import { type TestDatabase, testDatabase } from "../../../../test/support/database";
import { testTerraform } from "../../../../test/support/terraform";
import { HandlerClient } from "../../test/handler-client";
import { HEAD } from "../../test/support";
import type { Client } from "../client";
import type { ObjectValue } from "../framework";
import { workhorseProvider } from "../provider";

/** Several resources, or two lives of one, have to do with the same queues in one run, in whatever order Terraform likes. */
describe("steps of one run about the same queues", () => {
  let database: TestDatabase;
  let terraform: TerraformSandbox;
  let workspace: TerraformWorkspace;
  let client: HandlerClient<Client>;

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
    await sync([]);
    workspace = await terraform.workspace({ "main.tf": HEAD });
    await workspace.init();
    client = new HandlerClient(workhorseProvider({}));
    await newRun();
  });
  afterEach(() => client.handler.close?.());

  const newRun = () => client.configure({ url: database.url });
  const sync = (queues: readonly string[]) =>
    database.pool.query("SELECT workhorse.sync_concurrency_policies_v1('team', $1)", [
      JSON.stringify(queues.map((queue) => ({ queue, maxActive: 1 }))),
    ]);
  const stored = async () =>
    (await database.pool.query("SELECT queue_name FROM workhorse.concurrency_policy ORDER BY 1")).rows.map(
      (row) => row.queue_name,
    );

  const write = (name: string, queues: readonly string[], more = "") =>
    workspace.write({
      "main.tf": `${HEAD}
      resource "workhorse_concurrency_policies" "${name}" {
        namespace = "team"
        policies  = { ${queues.map((queue) => `${queue} = { max_active = 1 }`).join(", ")} }
        ${more}
      }`,
    });
  const applied = async (...args: string[]) => {
    const result = await workspace.apply(...args);
    if (!result.ok) throw new Error(result.all);
    return result;
  };
  const noChange = async () => expect(await workspace.plan("-detailed-exitcode")).toMatchObject({ code: 0 });

  const set = () => client.resource("workhorse_concurrency_policies");
  const plan = (queues: readonly string[], prune: boolean, prior: ObjectValue | null = null) => {
    const policies = new Map(queues.map((queue) => [queue, { max_active: 1, max_active_per_key: null }] as const));
    return set().plan({ namespace: "team", policies, prune }, prior);
  };
  const make = async (queues: readonly string[], prune: boolean) => {
    const { state, diagnostics } = await set().apply(await plan(queues, prune));
    expect(diagnostics).toEqual([]);
    return state!;
  };

  test("a replacement that destroys first creates what its plan showed, also over drift", async () => {
    await write("it", ["mail"]);
    await applied();
    await sync(["mail", "drift"]);
    await applied("-replace=workhorse_concurrency_policies.it");
    expect(await stored()).toEqual(["mail"]);
    await noChange();
  });

  test("a replacement that creates first keeps what it created, and says so", async () => {
    await write("it", ["mail"], "lifecycle { create_before_destroy = true }");
    await applied();
    const { text } = await applied("-replace=workhorse_concurrency_policies.it");
    expect(text).toContain('Policies of namespace "team" were kept');
    expect(await stored()).toEqual(["mail"]);
    await noChange();
  });

  test("a resource that was renamed without a moved block loses nothing", async () => {
    await write("old", ["mail"]);
    await applied();
    await write("new", ["mail"]);
    await applied();
    expect(await stored()).toEqual(["mail"]);
    await noChange();
  });

  test.each(["created", "destroyed"])("the same, when the new one is %s first", async (order) => {
    const old = await make(["mail", "sms"], true);
    await newRun();
    const destroy = await set().plan(null, old);
    const shown = (await plan(["mail"], true)).planned!;
    expect(shown.pruned).toEqual(["sms"]);
    const create = async () => {
      // Terraform plans again, and wants the same.
      const again = await plan(["mail"], true);
      expect(again.planned).toEqual(shown);
      expect((await set().apply(again)).diagnostics).toEqual([]);
    };
    if (order === "created") await create();
    const { state, diagnostics } = await set().apply(destroy);
    expect(state).toBeNull();
    expect(diagnostics.map(({ summary }) => summary)).toEqual(
      order === "created" ? ['Policies of namespace "team" were kept'] : [],
    );
    if (order === "destroyed") await create();
    expect(await stored()).toEqual(["mail"]);
  });

  test("a queue goes from one resource of a namespace to another, in either order", async () => {
    for (const giveFirst of [true, false]) {
      await sync([]);
      const [from, to] = [await make(["mail", "sms"], false), await make(["fax"], false)];
      await newRun();
      const give = async () => {
        const { state, diagnostics } = await set().apply(await plan(["mail"], false, from));
        expect([...(state!.policies as Map<string, unknown>).keys()]).toEqual(["mail"]);
        expect(diagnostics).toHaveLength(giveFirst ? 0 : 1);
      };
      if (giveFirst) await give();
      expect((await set().apply(await plan(["fax", "sms"], false, to))).diagnostics).toEqual([]);
      if (!giveFirst) await give();
      expect(await stored()).toEqual(["fax", "mail", "sms"]);
    }
  });

  test("two resources that prune each other's queues are told so, and nothing is lost", async () => {
    await sync(["fax", "mail"]);
    const [first, second] = [await plan(["mail"], true), await plan(["fax"], true)];
    expect((await set().apply(first)).diagnostics).toEqual([]);
    const { state, diagnostics } = await set().apply(second);
    expect(state).toBeNull();
    expect(diagnostics[0]?.summary).toBe('Two resources of this run claim namespace "team"');
    expect(diagnostics[0]?.detail).toContain('"mail"');
    expect(await stored()).toEqual(["mail"]);
  });

  test("two resources that declare one queue differently are told so", async () => {
    const capped = (max: number) =>
      set().plan({
        namespace: "team",
        prune: false,
        policies: new Map([["mail", { max_active: max, max_active_per_key: null }]]),
      });
    const [first, second, same] = [await capped(1), await capped(2), await capped(1)];
    expect((await set().apply(first)).diagnostics).toEqual([]);
    expect((await set().apply(second)).diagnostics[0]?.summary).toBe(
      'Two resources of this run claim namespace "team"',
    );
    expect((await set().apply(same)).diagnostics).toEqual([]);
  });

  test("what a failed step wrote does not count", async () => {
    const old = await make(["mail"], true);
    await newRun();
    await database.pool.query(`
      CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
      CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON workhorse.concurrency_policy DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION public.fail();`);
    try {
      const { diagnostics } = await set().apply(await plan(["mail", "sms"], true));
      expect(diagnostics).toHaveLength(1);
    } finally {
      await database.pool.query("DROP FUNCTION public.fail CASCADE");
    }
    expect((await set().apply(await set().plan(null, old))).diagnostics).toEqual([]);
    expect(await stored()).toEqual([]);
  });
});
