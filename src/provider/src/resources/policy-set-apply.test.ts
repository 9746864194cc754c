import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import { type TestDatabase, testDatabase } from "../../../../test/support/database";
import { HandlerClient } from "../../test/handler-client";
import type { Client } from "../client";
import type { ObjectValue } from "../framework";
import { workhorseProvider } from "../provider";

const policy = (n: number): ObjectValue => ({ rate: { limit: n, interval_ms: 1000, burst: 1 }, per_key: null });
const map = (policies: Record<string, number>) =>
  new Map(Object.entries(policies).map(([queue, n]) => [queue, policy(n)] as const));

/** What happens between a plan and the end of its apply, where Terraform cannot be asked to wait. */
describe("applying a set", () => {
  let database: TestDatabase;
  let client: HandlerClient<Client>;

  beforeAll(async () => {
    database = await testDatabase();
    // Counts the calls of the sync function, by namespace.
    await database.pool.query(`
      CREATE TABLE public.calls (namespace text, prune boolean);
      ALTER FUNCTION workhorse.sync_rate_limit_policies_v1 RENAME TO real_sync;
      CREATE FUNCTION workhorse.sync_rate_limit_policies_v1(ns text, defs jsonb, prune boolean DEFAULT true)
      RETURNS SETOF workhorse.rate_limit_policy LANGUAGE sql AS $$
        INSERT INTO public.calls VALUES (ns, prune);
        SELECT * FROM workhorse.real_sync(ns, defs, prune);
      $$;`);
  });
  afterAll(() => database?.drop());
  beforeEach(async () => {
    await database.pool.query("SELECT workhorse.real_sync(n, '[]') FROM unnest(ARRAY['team', 'other', 'old']) AS n");
    await database.pool.query("TRUNCATE public.calls");
    client = new HandlerClient(workhorseProvider({}));
    await newRun();
  });
  afterEach(() => client.handler.close?.());

  /** Terraform configures the provider once in a run. */
  const newRun = () => client.configure({ url: database.url });
  const set = () => client.resource("workhorse_rate_limit_policies");
  const sync = (
    namespace: string,
    policies: Record<string, number>,
    executor: Pick<TestDatabase["pool"], "query"> = database.pool,
  ) =>
    executor.query("SELECT workhorse.real_sync($1, $2)", [
      namespace,
      JSON.stringify(
        Object.entries(policies).map(([queue, limit]) => ({ queue, rate: { limit, intervalMs: 1000, burst: 1 } })),
      ),
    ]);
  const stored = async () =>
    (
      await database.pool.query(
        "SELECT namespace || '/' || queue_name || '=' || rate_limit AS p FROM workhorse.rate_limit_policy ORDER BY 1",
      )
    ).rows.map((row) => row.p);
  const calls = async () =>
    (await database.pool.query("SELECT namespace FROM public.calls")).rows.map((row) => row.namespace);
  const config = (namespace: string, policies: Record<string, number>, prune: boolean | null = null) => ({
    namespace,
    policies: map(policies),
    prune,
  });
  const create = async (...args: Parameters<typeof config>) => {
    const { state, diagnostics } = await set().apply(await set().plan(config(...args)));
    expect(diagnostics).toEqual([]);
    await database.pool.query("TRUNCATE public.calls");
    await newRun();
    return state!;
  };

  test("is one call of the sync function for each namespace", async () => {
    await sync("team", { stays: 1 });
    const first = await set().apply(await set().plan(config("team", { mail: 5, sms: 6 }, false)));
    expect(await calls()).toEqual(["team"]);
    await newRun();
    const update = await set().apply(await set().plan(config("team", { mail: 7 }, false), first.state));
    expect(await calls()).toEqual(["team", "team"]);
    expect(await stored()).toEqual(["team/mail=7", "team/stays=1"]);
    await newRun();
    const moved = await set().apply(await set().plan(config("other", { mail: 7 }, false), update.state));
    expect(await calls()).toEqual(["team", "team", "team", "other"]);
    expect(await stored()).toEqual(["other/mail=7", "team/stays=1"]);
    await newRun();
    expect((await set().apply(await set().plan(null, moved.state))).state).toBeNull();
    expect(await calls()).toEqual(["team", "team", "team", "other", "other"]);
    expect(await stored()).toEqual(["team/stays=1"]);
  });

  test("a create refuses to remove what came after its plan", async () => {
    const plan = await set().plan(config("team", { mail: 5 }));
    await sync("team", { late: 1 });
    const { state, diagnostics } = await set().apply(plan);
    expect(state).toBeNull();
    expect(diagnostics[0]?.summary).toBe(
      'The apply would remove policies of namespace "team" that the plan did not show',
    );
    expect(diagnostics[0]?.detail).toContain('"late"');
    expect(await stored()).toEqual(["team/late=1"]);
    expect(await calls()).toEqual([]);
  });

  test("an update refuses what was added, changed or removed after its plan, and keeps its state", async () => {
    const prior = await create("team", { mail: 5, sms: 6 });
    for (const [now, how] of [
      [{ mail: 5, sms: 6, late: 1 }, '"late" was added'],
      [{ mail: 9, sms: 6 }, '"mail" was changed'],
      [{ mail: 5 }, '"sms" was removed'],
    ] as const) {
      await sync("team", { mail: 5, sms: 6 });
      const plan = await set().plan(config("team", { mail: 7, sms: 6 }), prior);
      await sync("team", now);
      const { state, diagnostics } = await set().apply(plan);
      expect(diagnostics.map(({ detail }) => detail)).toEqual([expect.stringContaining(how)]);
      expect(state).toEqual(prior);
      expect(await stored()).toEqual(
        Object.entries(now)
          .map(([queue, n]) => `team/${queue}=${n}`)
          .sort(),
      );
    }
  });

  test("an update that someone has already made is made", async () => {
    const prior = await create("team", { mail: 5 });
    const plan = await set().plan(config("team", { mail: 7 }), prior);
    await sync("team", { mail: 7 });
    expect((await set().apply(plan)).diagnostics).toEqual([]);
  });

  test("decides under the lock: a queue that another takes in the meantime is refused", async () => {
    const plan = await set().plan(config("team", { mail: 5 }));
    const rival = await database.connect();
    await rival.query("BEGIN");
    await sync("other", { mail: 1 }, rival);
    const apply = set().apply(plan);
    for (;;) {
      const { rows } = await database.pool.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
      if (rows.length > 0) break;
    }
    await rival.query("COMMIT");
    const { diagnostics } = await apply;
    expect(diagnostics[0]?.summary).toBe('Queue "mail" is owned by namespace "other"');
    expect(await stored()).toEqual(["other/mail=1"]);
    expect(await calls()).toEqual([]);
  });

  test("a destroy removes exactly the state's queues", async () => {
    const prior = await create("team", { mail: 5 });
    await sync("team", { mail: 8, late: 1 });
    const { state, diagnostics } = await set().apply(await set().plan(null, prior));
    expect({ state, diagnostics }).toEqual({ state: null, diagnostics: [] });
    expect(await stored()).toEqual(["team/late=1"]);
  });

  test("many at once share at most four connections", async () => {
    const count = async () =>
      Number(
        (
          await database.pool.query(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'terraform-provider-workhorse' AND datname = current_database()",
          )
        ).rows[0].count,
      );
    const plans = await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        set().plan({ namespace: `n${i}`, policies: map({ [`q${i}`]: 1 }), prune: true }),
      ),
    );
    const applied = await Promise.all(plans.map((plan) => set().apply(plan)));
    expect(applied.flatMap(({ diagnostics }) => diagnostics)).toEqual([]);
    expect(await count()).toBeLessThanOrEqual(4);
    await newRun();
    await Promise.all(
      applied.map(({ state }, i) =>
        set()
          .apply({ written: null, prior: state, planned: null })
          .then(() => i),
      ),
    );
  });

  test("an abort reaches the database also when every connection waits", async () => {
    // No timeout ends the waiting: only the abort does.
    await client.configure({ url: database.url, lock_timeout_ms: 3_600_000, statement_timeout_ms: 3_600_000 });
    const plans = await Promise.all(
      Array.from({ length: 5 }, (_, i) =>
        set().plan({ namespace: `n${i}`, policies: map({ [`q${i}`]: 1 }), prune: true }),
      ),
    );
    const holder = await database.connect();
    await holder.query("BEGIN");
    await holder.query("SELECT pg_advisory_xact_lock(hashtextextended('workhorse:rate-limit-policies', 0))");
    const stop = new AbortController();
    const applies = plans.map((plan) => set().apply(plan, stop.signal));
    for (;;) {
      const { rows } = await database.pool.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
      if (rows.length === 3) break;
    }
    stop.abort(new Error("stopped"));
    for (const { diagnostics } of await Promise.all(applies)) expect(diagnostics[0]?.summary).toBe("Interrupted");
    await holder.query("ROLLBACK");
    expect(await stored()).toEqual([]);
  });

  test("ten thousand queues in one map", async () => {
    const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`q${i}`, 1 + (i % 100)]));
    const prior = await create("team", many);
    const plan = await set().plan(config("team", { ...many, q0: 99 }), prior);
    expect((await set().apply(plan)).diagnostics).toEqual([]);
  });
});
