import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { cancel, claim, complete, enqueue, heartbeat, syncCaps, syncRateLimits } from "./support/calls";
import { TestClock } from "./support/clock";

let database: TestDatabase;
let client: Client;
let other: Client;
let clock: TestClock;
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
  other = await database.connect();
  clock = await TestClock.install(client);
});
afterAll(() => database.drop());

let queue: string;
let queues = 0;
beforeEach(() => {
  queue = `q${queues++}`;
});

const leaseMs = 1_000;

describe("a lease that a transaction under way has extended in time keeps its slot:", () => {
  const caps: [string, { maxActive: number; maxActivePerKey?: number }, string][] = [
    ["of the queue", { maxActive: 1 }, "slots"],
    ["of the key", { maxActive: 100, maxActivePerKey: 1 }, "key_slots"],
  ];
  const two = () => enqueue(client, { queue, concurrencyKey: "a" }, { queue, concurrencyKey: "a" });

  test.each(caps)("the slot %s", async (_, cap, reason) => {
    await syncCaps(client, queue, [{ queue, ...cap }]);
    await two();
    const [held] = (await claim(client, queue, { leaseMs })).jobs;
    await other.query("BEGIN");
    expect(await heartbeat(other, [held!], 60_000)).toEqual([]);
    await clock.advanceMs(leaseMs);
    for (const most of [1, 10]) {
      const { jobs, answer } = await claim(client, queue, { most });
      expect(jobs).toEqual([]);
      // It is not known when the transaction ends, nor whether anybody says so: ask again soon, but not at once.
      expect(answer).toMatchObject({ reason, waitMs: 100 });
    }
    await other.query("COMMIT");
    expect((await claim(client, queue)).answer).toMatchObject({ reason, waitMs: 59_000 });
    await complete(client, held!);
    expect((await claim(client, queue)).jobs).toHaveLength(1);
  });

  test.each(caps)("and loses it if the extension comes to nothing: the slot %s", async (_, cap, _reason) => {
    await syncCaps(client, queue, [{ queue, ...cap }]);
    await two();
    const [held] = (await claim(client, queue, { leaseMs })).jobs;
    await other.query("BEGIN");
    await heartbeat(other, [held!], 60_000);
    await clock.advanceMs(leaseMs);
    expect((await claim(client, queue)).jobs).toEqual([]);
    await other.query("ROLLBACK");
    await clock.advanceMs(100);
    expect((await claim(client, queue)).jobs).toHaveLength(1);
  });

  test("other keys, and slots that are free anyway, do not wait for it", async () => {
    await syncCaps(client, queue, [{ queue, maxActive: 3, maxActivePerKey: 2 }]);
    await two();
    await enqueue(client, { queue, concurrencyKey: "a" }, { queue, concurrencyKey: "b" });
    const [held, lapsed] = (await claim(client, queue, { leaseMs, most: 2 })).jobs;
    await other.query("BEGIN");
    await heartbeat(other, [held!], 60_000);
    await clock.advanceMs(leaseMs);
    const { jobs } = await claim(client, queue, { most: 5 });
    expect(jobs.map(({ concurrency_key }) => concurrency_key)).toEqual(["a", "b"]);
    await other.query("COMMIT");
    expect(await heartbeat(client, [lapsed!])).toEqual([lapsed!.id]);
  });

  test("a claim does not keep the rows of expired leases locked, so that recovery finds them", async () => {
    await syncCaps(client, queue, [{ queue, maxActive: 1 }]);
    await two();
    const [lapsed] = (await claim(client, queue, { leaseMs })).jobs;
    await clock.advanceMs(leaseMs);
    await other.query("BEGIN");
    expect((await claim(other, queue)).jobs).toHaveLength(1);
    const { rows } = await client.query("SELECT job_id FROM workhorse.recover_expired_v1() WHERE queue_name = $1", [
      queue,
    ]);
    expect(rows).toEqual([{ job_id: lapsed!.id }]);
    await other.query("ROLLBACK");
  });
});

describe("jobs that another transaction has locked hold up no other job of a queue with limits per key:", () => {
  const plenty = { limit: 1, intervalMs: 86_400_000, burst: 1_000 };

  test.each([1, 2, 10])("a claim of %d", async (most) => {
    await syncRateLimits(client, queue, [{ queue, rate: plenty, perKey: plenty }]);
    const jobs = ["a", "a", "b", "c", "d"].map((concurrencyKey) => ({ queue, concurrencyKey }));
    const [a1, a2, b, c, d] = await enqueue(client, ...jobs);
    const keyless = (await enqueue(client, { queue }, { queue })) as [string, string];
    await other.query("BEGIN");
    for (const id of [a1!, b!, c!, keyless[0]]) await cancel(other, id);
    const started: string[] = [];
    for (;;) {
      const claimed = await claim(client, queue, { most });
      started.push(...claimed.jobs.map(({ id }) => id));
      if (claimed.answer) {
        // Nothing that could start is left, so there is no reason to ask again at once.
        expect(claimed.answer.waitMs).toBeNull();
        break;
      }
    }
    expect(started).toEqual([a2, d, keyless[1]]);
    await other.query("ROLLBACK");
    expect((await claim(client, queue, { most: 10 })).jobs.map(({ id }) => id)).toEqual([a1, b, c, keyless[0]]);
  });

  test("with one token left, it goes to the first job that can start", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: { ...plenty, burst: 1 }, perKey: plenty }]);
    const [first, second] = await enqueue(client, { queue, concurrencyKey: "a" }, { queue, concurrencyKey: "b" });
    await enqueue(client, { queue, concurrencyKey: "c" });
    await other.query("BEGIN");
    await cancel(other, first!);
    expect((await claim(client, queue, { most: 10 })).jobs.map(({ id }) => id)).toEqual([second]);
    await other.query("COMMIT");
  });

  test("more of them than a claim looks at: it says when to ask again, and not at once", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: plenty, perKey: plenty }]);
    const ids = await enqueue(client, ...Array.from({ length: 1_100 }, (_, i) => ({ queue, concurrencyKey: `k${i}` })));
    await other.query("BEGIN");
    await other.query("SELECT FROM workhorse.job WHERE id = ANY ($1) FOR UPDATE", [ids]);
    await enqueue(client, { queue, concurrencyKey: "z" });
    const { jobs, answer } = await claim(client, queue, { most: 1_000 });
    expect(jobs.length === 1 || answer!.waitMs === 100).toBe(true);
    await other.query("ROLLBACK");
    expect((await claim(client, queue, { most: 1_000 })).jobs).toHaveLength(1_000);
  });
});
