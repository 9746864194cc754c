import { afterAll, afterEach, beforeAll, describe, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { rows } from "./support/calls";
import { kinds, rateLimitKind } from "./support/kinds";
import { refusalOf } from "./support/refusal";
import { backendOf, Listener, untilWaiting } from "./support/sessions";

let database: TestDatabase;
let client: Client;
let other: Client;
let listener: Listener;
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
  other = await database.connect();
  listener = await Listener.start(await database.connect());
});
afterAll(() => database.drop());

/** When the policies were last changed, by queue. In microseconds: two syncs may fall into one millisecond of a Date. */
async function updatedUs(table: string): Promise<number[]> {
  const times = `SELECT extract(epoch FROM updated_at) * 1000000 AS us FROM ${table} ORDER BY queue_name`;
  return (await rows(client, times)).map(({ us }) => Number(us));
}

describe.each(kinds)("sync of $name policies", ({ name, table, lock, sync, define, row }) => {
  const all = () => rows(client, `SELECT * FROM ${table} ORDER BY queue_name`);
  const changes = () => rows(client, "SELECT queue_name, revision FROM workhorse.rate_limit_change ORDER BY 1, 2");
  const withoutTime = (policies: Record<string, unknown>[]) => policies.map(({ updated_at, ...rest }) => rest);
  const takeLock = (executor: Client) =>
    executor.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [lock]);

  afterEach(async () => {
    for (const { namespace } of await rows(client, `SELECT DISTINCT namespace FROM ${table}`)) {
      await sync(client, namespace, []);
    }
    await listener.taken();
  });

  test("creates, and returns what is persisted, columns as the table, with a time each", async () => {
    const returned = await sync(client, "n", [define("b", 2), define("a")]);
    expect(withoutTime(returned)).toEqual([row("n", "a"), row("n", "b", 2)]);
    expect(returned).toEqual(await all());
    for (const { updated_at } of returned) expect(updated_at).toBeInstanceOf(Date);
    expect(await listener.taken()).toEqual(["a", "b"]);
  });

  test("returns only the namespace's own", async () => {
    await sync(client, "other", [define("theirs")]);
    expect(withoutTime(await sync(client, "n", [define("mine")]))).toEqual([row("n", "mine")]);
    expect(await all()).toHaveLength(2);
  });

  test("changes only what differs: updated_at moves and a notification goes out for that alone", async () => {
    const times = () => updatedUs(table);
    await sync(client, "n", [define("a"), define("b"), define("c")]);
    await listener.taken();
    const [a, b, c] = await times();
    const after = await sync(client, "n", [define("a"), define("b", 7), define("c")]);
    expect(withoutTime(after)).toEqual([row("n", "a"), row("n", "b", 7), row("n", "c")]);
    expect(await times()).toEqual([a, expect.any(Number), c]);
    expect((await times())[1]).toBeGreaterThan(b!);
    expect(await listener.taken()).toEqual(["b"]);
  });

  test("an identical sync changes nothing: no updated_at, no notification, no change to fold over", async () => {
    const definitions = [define("a"), { ...define("b", 3), ...(name === "concurrency" ? { maxActivePerKey: 2 } : {}) }];
    await sync(client, "n", definitions);
    await listener.taken();
    // The row itself stays, not only its values.
    const versions = () => rows(client, `SELECT xmin, ctid, p.* FROM ${table} AS p ORDER BY queue_name`);
    const [before, recorded] = [await versions(), await changes()];
    for (const same of [definitions, [...definitions].reverse()]) await sync(client, "n", same);
    await sync(client, "n", definitions, false);
    expect(await versions()).toEqual(before);
    expect(await changes()).toEqual(recorded);
    expect(await listener.taken()).toEqual([]);
  });

  test("prunes by default, which is told; without prune the others stay", async () => {
    await sync(client, "n", [define("a"), define("b")]);
    await listener.taken();
    expect(withoutTime(await sync(client, "n", [define("c")], false))).toEqual([
      row("n", "a"),
      row("n", "b"),
      row("n", "c"),
    ]);
    expect(await listener.taken()).toEqual(["c"]);
    expect(withoutTime(await sync(client, "n", [define("c"), define("a")]))).toEqual([row("n", "a"), row("n", "c")]);
    expect(await listener.taken()).toEqual(["b"]);
    expect(withoutTime(await sync(client, "n", [define("a")], true))).toEqual([row("n", "a")]);
    expect(await all()).toHaveLength(1);
  });

  test("an empty list removes all of the namespace, and with prune false none", async () => {
    await sync(client, "other", [define("theirs")]);
    await sync(client, "n", [define("a"), define("b")]);
    expect(await sync(client, "n", [], false)).toHaveLength(2);
    await listener.taken();
    expect(await sync(client, "n", [])).toEqual([]);
    expect(await listener.taken()).toEqual(["a", "b"]);
    expect(withoutTime(await all())).toEqual([row("other", "theirs")]);
    expect(await sync(client, "nobody", [])).toEqual([]);
  });

  test("a queue of another namespace is refused with the owner's name, and nothing is written", async () => {
    await sync(client, "owner ä", [define("q")]);
    await sync(client, "n", [define("a"), define("pruned")]);
    await listener.taken();
    const before = await all();
    const refusal = await refusalOf(sync(client, "n", [define("a", 5), define("new"), define("q")]));
    expect(refusal.code).toBe("WH001");
    expect(refusal.message).toContain(`"q" is owned by namespace "owner ä"`);
    expect(refusal.message).toContain(name);
    expect(refusal.hint).toContain(`Let namespace "owner ä" give the queue up first`);
    expect(refusal.detail).toEqual({ namespace: "n", queue: "q", owner: "owner ä" });
    expect(await all()).toEqual(before);
    expect(await listener.taken()).toEqual([]);
    // Also when the definition is the very one that the owner has, and without prune.
    expect((await refusalOf(sync(client, "n", [define("q")], false))).code).toBe("WH001");
  });

  test("a queue can be taken over once its owner has given it up, also in one transaction", async () => {
    await sync(client, "first", [define("q"), define("kept")]);
    await sync(client, "first", [define("kept")]);
    expect(withoutTime(await sync(client, "second", [define("q", 2)]))).toEqual([row("second", "q", 2)]);
    await client.query("BEGIN");
    await sync(client, "second", []);
    await sync(client, "third", [define("q", 2)]);
    await client.query("COMMIT");
    expect(withoutTime(await all())).toEqual([row("first", "kept"), row("third", "q", 2)]);
  });

  test("joins the caller's transaction: a rollback leaves no trace and no notification", async () => {
    await sync(client, "n", [define("a")]);
    await listener.taken();
    const before = [await all(), await changes()];
    await client.query("BEGIN");
    await sync(client, "n", [define("b")]);
    await client.query("ROLLBACK");
    expect([await all(), await changes()]).toEqual(before);
    expect(await listener.taken()).toEqual([]);
  });

  test("orders rows as COLLATE C does, keeps odd names as they are, and notifies them", async () => {
    const names = [
      "\u00e9",
      "e\u0301",
      "Z",
      "a",
      "😀",
      'q"u\'o"te',
      "new\nline",
      "back\\slash",
      " ",
      "%s $1 {}",
      "x".repeat(256),
      "😀".repeat(64),
    ];
    const bytes = (text: string) => Buffer.from(text);
    const returned = await sync(
      client,
      "n ' \" \n 😀",
      names.map((queue) => define(queue)),
    );
    const sorted = [...names].sort((a, b) => Buffer.compare(bytes(a), bytes(b)));
    expect(returned.map(({ queue_name }) => queue_name)).toEqual(sorted);
    expect(returned.every(({ namespace }) => namespace === "n ' \" \n 😀")).toBe(true);
    expect(await listener.taken()).toEqual([...names].sort());
    const collated = await rows(client, `SELECT queue_name FROM ${table} ORDER BY queue_name COLLATE "C"`);
    expect(collated.map(({ queue_name }) => queue_name)).toEqual(sorted);
  });

  test("10,000 definitions in one call, on a server with default settings; then 10,000 changes; then none", async () => {
    const [{ settings }] = (await rows(client, "SELECT current_setting('max_locks_per_transaction') AS settings")) as [
      { settings: string },
    ];
    expect(settings).toBe("64");
    const many = (number: number) =>
      Array.from({ length: 10_000 }, (_, i) => define(`q${String(i).padStart(5, "0")}`, number));
    const returned = await sync(client, "n", many(1));
    expect(returned).toHaveLength(10_000);
    expect(withoutTime([returned[0]!, returned[9_999]!])).toEqual([row("n", "q00000"), row("n", "q09999")]);
    expect(await listener.taken()).toHaveLength(10_000);
    expect(withoutTime([(await sync(client, "n", many(2)))[5_000]!])).toEqual([row("n", "q05000", 2)]);
    expect(await listener.taken()).toHaveLength(10_000);
    expect(await sync(client, "n", [])).toEqual([]);
  });

  test.each(["REPEATABLE READ", "SERIALIZABLE"])("is refused under %s", async (level) => {
    await client.query(`BEGIN ISOLATION LEVEL ${level}`);
    const refusal = await refusalOf(sync(client, "n", [define("a")]));
    await client.query("ROLLBACK");
    expect(refusal).toMatchObject({ code: "0A000", message: expect.stringContaining(level) });
    expect(refusal.hint).toContain("READ COMMITTED");
  });

  test("works under READ UNCOMMITTED, which PostgreSQL treats as READ COMMITTED", async () => {
    await client.query("BEGIN ISOLATION LEVEL READ UNCOMMITTED");
    await sync(client, "n", [define("a")]);
    await client.query("COMMIT");
    expect(await all()).toHaveLength(1);
  });

  test("waits for a client that holds the lock, which can read, decide and sync atomically", async () => {
    await sync(client, "n", [define("a")]);
    const pid = await backendOf(other);
    await client.query("BEGIN");
    await takeLock(client);
    const waiting = sync(other, "n", [define("b")], false);
    await untilWaiting(client, [pid]);
    const read = await all();
    expect(withoutTime(await sync(client, "n", [define("a", 9)], false))).toEqual([row("n", "a", 9)]);
    expect(read).toHaveLength(1);
    await client.query("COMMIT");
    expect(withoutTime(await waiting)).toEqual([row("n", "a", 9), row("n", "b")]);
  });

  test("two synchronisers at once take turns: the second sees what the first committed", async () => {
    const pid = await backendOf(other);
    await client.query("BEGIN");
    await sync(client, "first", [define("q")]);
    const second = refusalOf(sync(other, "second", [define("q")]));
    await untilWaiting(client, [pid]);
    await client.query("COMMIT");
    expect((await second).detail).toMatchObject({ owner: "first" });

    await client.query("BEGIN");
    await sync(client, "first", []);
    const third = sync(other, "second", [define("q", 4)]);
    await untilWaiting(client, [pid]);
    await client.query("COMMIT");
    expect(withoutTime(await third)).toEqual([row("second", "q", 4)]);
  });

  test("bad arguments and definitions are refused before any lock is waited for", async () => {
    await client.query("BEGIN");
    await takeLock(client);
    await other.query("SET lock_timeout = 1");
    try {
      for (const [namespace, definitions, prune] of [
        ["", [], true],
        ["n", null, true],
        ["n", [{}], true],
        ["n", [define("a"), define("a")], true],
        ["n", [define("a")], null],
      ] as const) {
        expect((await refusalOf(sync(other, namespace, definitions, prune))).code).toBe("WH002");
      }
    } finally {
      await other.query("RESET lock_timeout");
      await client.query("ROLLBACK");
    }
  });
});

test("both kinds in one transaction", async () => {
  await client.query("BEGIN");
  for (const { sync, define } of kinds) await sync(client, "both", [define("q")]);
  await client.query("COMMIT");
  for (const { sync, define, table } of kinds) {
    expect(await rows(client, `SELECT queue_name FROM ${table}`)).toEqual([{ queue_name: "q" }]);
    expect(await sync(client, "another", [define("own")])).toHaveLength(1);
    await sync(client, "another", []);
    await sync(client, "both", []);
  }
});

test("one kind's lock does not hold up the other's synchronisers", async () => {
  await client.query("BEGIN");
  await client.query("SELECT pg_advisory_xact_lock(hashtextextended('workhorse:concurrency-policies', 0))");
  expect(await rateLimitKind.sync(other, "n", [rateLimitKind.define("a")])).toHaveLength(1);
  await client.query("ROLLBACK");
  await rateLimitKind.sync(client, "n", []);
});

test("a change of perKey alone is a change; null and left out are the same", async () => {
  const perKey = { limit: 1, intervalMs: 1, burst: 1 };
  const { sync, define } = rateLimitKind;
  await sync(client, "n", [define("q")]);
  const [firstUs] = await updatedUs("workhorse.rate_limit_policy");
  const [second] = await sync(client, "n", [{ ...define("q"), perKey }]);
  expect(second).toMatchObject({ per_key_limit: 1, per_key_interval_ms: 1, per_key_burst: 1 });
  expect((await updatedUs("workhorse.rate_limit_policy"))[0]).toBeGreaterThan(firstUs!);
  expect(await sync(client, "n", [{ ...define("q"), perKey }])).toEqual([second]);
  const [third] = await sync(client, "n", [{ ...define("q"), perKey: null }]);
  expect(third).toMatchObject({ per_key_limit: null, per_key_interval_ms: null, per_key_burst: null });
  expect(await sync(client, "n", [define("q")])).toEqual([third]);
  await sync(client, "n", []);
});
