import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { byKey, expectNoneTwice, expectWithinRate } from "./support/audit";
import {
  claim,
  complete,
  enqueue,
  type Rate,
  release,
  rows,
  type Started,
  syncCaps,
  syncRateLimits,
} from "./support/calls";
import { backendOf, Listener, untilWaiting } from "./support/sessions";

const CONNECTIONS = 10;

let database: TestDatabase;
let client: Client;
let workers: Client[];
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
  workers = await Promise.all(Array.from({ length: CONNECTIONS }, () => database.connect()));
});
afterAll(() => database.drop());

let queue: string;
let queues = 0;
beforeEach(() => {
  queue = `q${queues++}`;
});

/** So slow that nothing comes back during a test: what starts is the burst, to the job. */
const frozen = (burst: number): Rate => ({ limit: 1, intervalMs: 86_400_000, burst });
const key = (n: number) => `k${n}`;
const backlog = (count: number, keys = 0) =>
  enqueue(
    client,
    ...Array.from({ length: count }, (_, i) => ({ queue, ...(keys ? { concurrencyKey: key(i % keys) } : {}) })),
  );

/** All workers claim at once, again and again, until each was refused. Returns what started. */
async function hammer(most: (worker: number) => number): Promise<Started[]> {
  const started: Started[] = [];
  await Promise.all(
    workers.map(async (worker, n) => {
      for (;;) {
        const { jobs, answer } = await claim(worker, queue, { most: most(n), worker: `w${n}` });
        started.push(...jobs);
        if (answer && answer.waitMs !== 0) return;
      }
    }),
  );
  expectNoneTwice(started);
  return started;
}

describe("many connections at once never share", () => {
  test("a token of the queue's bucket", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: frozen(157) }]);
    await backlog(600);
    expect(await hammer((n) => 1 + (n % 4))).toHaveLength(157);
  });

  test("a token of a key's bucket", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: frozen(1000), perKey: frozen(17) }]);
    await backlog(600, 9);
    const groups = byKey(await hammer((n) => 1 + (n % 4)));
    expect([...groups.values()].map(({ length }) => length)).toEqual(Array(9).fill(17));
  });

  test("a slot of the queue", async () => {
    await syncCaps(client, queue, [{ queue, maxActive: 100 }]);
    await backlog(300);
    expect(await hammer((n) => 1 + (n % 4))).toHaveLength(100);
  });

  test("a slot of a key", async () => {
    await syncCaps(client, queue, [{ queue, maxActive: 1000, maxActivePerKey: 7 }]);
    await backlog(300, 9);
    const groups = byKey(await hammer((n) => 1 + (n % 4)));
    expect([...groups.values()].map(({ length }) => length)).toEqual(Array(9).fill(7));
  });

  test("a job, where there is no limit at all", async () => {
    const ids = await backlog(500, 9);
    const started = await hammer((n) => 1 + (n % 4));
    expect(started.map(({ id }) => Number(id)).sort((a, b) => a - b)).toEqual(ids.map(Number));
  });

  test("any of these, all together, while jobs complete and tokens come: every window keeps to the rates", async () => {
    const rate: Rate = { limit: 400, intervalMs: 1000, burst: 40 };
    const perKey: Rate = { limit: 70, intervalMs: 1000, burst: 9 };
    await syncRateLimits(client, queue, [{ queue, rate, perKey }]);
    await syncCaps(client, queue, [{ queue, maxActive: 6, maxActivePerKey: 2 }]);
    await backlog(500, 8);
    const started: Started[] = [];
    let left = 500;
    /** A snapshot is exact: in none may there be more active jobs than slots. */
    const watching = (async () => {
      while (left > 0) {
        const [active] = await rows(
          client,
          `SELECT coalesce(sum(n), 0)::int AS total, coalesce(max(n), 0)::int AS most FROM (
             SELECT count(*) AS n FROM workhorse.job WHERE queue_name = $1 AND state = 'active' GROUP BY concurrency_key) AS k`,
          [queue],
        );
        if (active!.total > 6 || active!.most > 2) throw new Error(`too many active: ${JSON.stringify(active)}`);
      }
    })();
    const working = Promise.all(
      workers.map(async (worker, n) => {
        while (left > 0) {
          const { jobs } = await claim(worker, queue, { most: 1 + (n % 3), worker: `w${n}` });
          started.push(...jobs);
          for (const job of jobs) await complete(worker, job);
          left -= jobs.length;
        }
      }),
    );
    await Promise.all([watching, working]);
    expect(started).toHaveLength(500);
    expectNoneTwice(started);
    expectWithinRate(started, rate);
    for (const starts of byKey(started).values()) expectWithinRate(starts, perKey);
  });
});

describe("the audit itself", () => {
  const at = (...us: number[]) => us.map((started_us) => ({ started_us: BigInt(started_us) }) as Started);

  test("finds one start too many in a window", () => {
    const rate: Rate = { limit: 1, intervalMs: 1, burst: 2 };
    expectWithinRate(at(0, 0, 1000, 2000), rate);
    expect(() => expectWithinRate(at(0, 0, 0), rate)).toThrow();
    expect(() => expectWithinRate(at(0, 5000, 5000, 5999), rate)).toThrow();
    expectWithinRate(at(0, 5000, 5000, 6000), rate);
  });
});

describe("syncs racing with claims: each claim sees one definition, and no change gives a token away", () => {
  /** Nine workers claim while the tenth syncs, one change after the other. */
  async function race(changes: (() => Promise<unknown>)[]): Promise<Started[]> {
    const claimed: Started[] = [];
    await Promise.all(
      workers.map(async (worker, n) => {
        if (n === 0) {
          for (const change of changes) await change();
        } else {
          for (let calls = 0; calls < 30; calls++) claimed.push(...(await claim(worker, queue, { most: 2 })).jobs);
        }
      }),
    );
    claimed.push(...(await claim(client, queue, { most: 1000 })).jobs);
    expectNoneTwice(claimed);
    return claimed;
  }

  test("of a policy that is changed", async () => {
    const definitions = [60, 300, 90, 999].map((burst) => ({ queue, rate: frozen(burst), perKey: frozen(burst / 3) }));
    await syncRateLimits(client, queue, [definitions[0]]);
    await backlog(600, 3);
    const claimed = await race(
      Array.from({ length: 40 }, (_, i) => () => syncRateLimits(workers[0]!, queue, [definitions[i % 4]])),
    );
    // Exactly what the first definition's buckets had.
    expect([...byKey(claimed).values()].map(({ length }) => length)).toEqual([20, 20, 20]);
  });

  test("of a policy that comes and goes", async () => {
    const definition = { queue, rate: frozen(90), perKey: frozen(30) };
    await syncRateLimits(client, queue, [definition]);
    await backlog(1000, 3);
    await race(
      Array.from({ length: 40 }, (_, i) => () => syncRateLimits(workers[0]!, queue, i % 2 ? [definition] : [])),
    );
    // What starts while there is no policy is not limited; the rest spent what the first definition had.
    const [status] = await rows(client, "SELECT starts FROM workhorse.rate_limit_statuses_v1(ARRAY[$1])", [queue]);
    expect(Number(status!.starts)).toBeLessThanOrEqual(90);
  });
});

test("a claim that rolls back spent nothing, whoever claims beside it", async () => {
  await syncRateLimits(client, queue, [{ queue, rate: frozen(80), perKey: frozen(40) }]);
  await syncCaps(client, queue, [{ queue, maxActive: 500, maxActivePerKey: 300 }]);
  await backlog(300, 2);
  const committed: Started[] = [];
  await Promise.all(
    workers.map(async (worker, n) => {
      for (let calls = 0; calls < 24; calls++) {
        await worker.query("BEGIN");
        const { jobs } = await claim(worker, queue, { most: 1 + (n % 3) });
        const rollBack = (n + calls) % 2 === 0;
        await worker.query(rollBack ? "ROLLBACK" : "COMMIT");
        if (!rollBack) committed.push(...jobs);
      }
    }),
  );
  committed.push(...(await claim(client, queue, { most: 500 })).jobs);
  expectNoneTwice(committed);
  expect(committed).toHaveLength(80);
  expect([...byKey(committed).values()].map(({ length }) => length)).toEqual([40, 40]);
});

describe("what commits late is found:", () => {
  test.each([
    ["without limits", null],
    ["with a rate limit", { rate: frozen(1000) }],
    ["with limits per key", { rate: frozen(1000), perKey: frozen(1000) }],
  ])("jobs of a transaction that was open while many claims passed, %s", async (_, limits) => {
    if (limits) await syncRateLimits(client, queue, [{ queue, ...limits }]);
    const [early, late] = [workers[0]!, workers[1]!];
    await early.query("BEGIN");
    const found = await enqueue(early, { queue, concurrencyKey: "a" });
    await late.query("BEGIN");
    const lost = await enqueue(late, { queue, concurrencyKey: "a" }, { queue, concurrencyKey: "b" });
    for (let i = 0; i < 20; i++) {
      await enqueue(client, { queue, concurrencyKey: key(i % 3) });
      expect((await claim(client, queue)).jobs).toHaveLength(1);
    }
    expect((await claim(client, queue)).jobs).toEqual([]);
    await late.query("ROLLBACK");
    await early.query("COMMIT");
    const { jobs } = await claim(client, queue, { most: 5 });
    expect(jobs.map(({ id }) => id)).toEqual(found);
    expect(lost).toHaveLength(2);
  });

  test("jobs of the claim's own transaction, enqueued or given back after it claimed", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: frozen(1000), perKey: frozen(1000) }]);
    await client.query("BEGIN");
    const [first] = await enqueue(client, { queue, concurrencyKey: "a" });
    // A later transaction ends first: the claim's snapshot then goes beyond its own transaction, without naming it.
    await enqueue(workers[0]!, { queue: `${queue} other` });
    const [job] = (await claim(client, queue)).jobs;
    const [second] = await enqueue(client, { queue, concurrencyKey: "b" });
    await release(client, job!, 0);
    await client.query("COMMIT");
    const { jobs } = await claim(client, queue, { most: 5 });
    expect(jobs.map(({ id }) => id)).toEqual([first, second]);
  });

  test("jobs that many transactions enqueue while others claim: each is started once", async () => {
    await syncRateLimits(client, queue, [{ queue, rate: frozen(10_000), perKey: frozen(10_000) }]);
    const enqueued: string[] = [];
    const started: Started[] = [];
    let open = 4;
    await Promise.all(
      workers.map(async (worker, n) => {
        if (n < 4) {
          for (let i = 0; i < 40; i++) {
            await worker.query("BEGIN");
            const ids = await enqueue(worker, { queue, concurrencyKey: key(i % 7) }, { queue, concurrencyKey: key(n) });
            await worker.query(i % 5 ? "COMMIT" : "ROLLBACK");
            if (i % 5) enqueued.push(...ids);
          }
          open -= 1;
        } else {
          for (let idle = false; !idle; ) {
            const { jobs } = await claim(worker, queue, { most: 3 });
            started.push(...jobs);
            idle = open === 0 && jobs.length === 0;
          }
        }
      }),
    );
    const numbers = (ids: string[]) => ids.map(Number).sort((a, b) => a - b);
    expect(numbers(started.map(({ id }) => id))).toEqual(numbers(enqueued));
  });
});

describe("freed capacity is told to whoever was refused while it was being freed:", () => {
  test.each([
    ["a slot of the queue", { maxActive: 1 }, "slots"],
    ["a slot of a key", { maxActive: 100, maxActivePerKey: 1 }, "key_slots"],
  ])("%s", async (_, cap, reason) => {
    const listener = await Listener.start(await database.connect());
    await syncCaps(client, queue, [{ queue, ...cap }]);
    await backlog(2, 1);
    const [holder, asker] = [workers[0]!, workers[1]!];
    const [job] = (await claim(holder, queue)).jobs;
    await listener.taken();
    await holder.query("BEGIN");
    await complete(holder, job!);
    expect((await claim(asker, queue)).answer!.reason).toBe(reason);
    expect(await listener.taken()).toEqual([]);
    await holder.query("COMMIT");
    expect(await listener.taken()).toEqual([queue]);
    expect((await claim(asker, queue)).jobs).toHaveLength(1);
  });

  test("in real races, again and again", async () => {
    const listener = await Listener.start(await database.connect());
    await syncCaps(client, queue, [{ queue, maxActive: 1, maxActivePerKey: 1 }]);
    await backlog(60, 1);
    let [job] = (await claim(client, queue)).jobs;
    for (let race = 0; race < 50; race++) {
      await listener.taken();
      const [, { jobs }] = await Promise.all([complete(workers[0]!, job!), claim(workers[1]!, queue)]);
      if (jobs.length === 0) {
        expect(await listener.taken()).toEqual([queue]);
        job = (await claim(workers[1]!, queue)).jobs[0];
      } else {
        job = jobs[0];
      }
      expect(job).toBeDefined();
    }
  });
});

describe("a cap that appears while ungoverned claims are under way", () => {
  test("counts their jobs: the next claim waits for them", async () => {
    await backlog(10);
    const [first, second] = [workers[0]!, workers[1]!];
    await first.query("BEGIN");
    expect((await claim(first, queue, { most: 3 })).jobs).toHaveLength(3);
    // Ungoverned claims do not wait for each other.
    expect((await claim(second, queue)).jobs).toHaveLength(1);
    await syncCaps(client, queue, [{ queue, maxActive: 5 }]);
    const pid = await backendOf(second);
    const waiting = claim(second, queue, { most: 3 });
    await untilWaiting(client, [pid]);
    await first.query("COMMIT");
    expect((await waiting).jobs).toHaveLength(1);
  });

  test("binds claims that began before it and got their turn after it", async () => {
    await backlog(10);
    const [first, second] = [workers[0]!, workers[1]!];
    const pids = [await backendOf(first), await backendOf(second)];
    await client.query("BEGIN");
    await client.query("SELECT pg_advisory_xact_lock(workhorse.admission_lock_id($1))", [queue]);
    await first.query("BEGIN");
    await second.query("BEGIN");
    const claims = [claim(first, queue, { most: 3 }), claim(second, queue, { most: 3 })];
    await untilWaiting(client, pids);
    await syncCaps(workers[2]!, queue, [{ queue, maxActive: 2 }]);
    await client.query("COMMIT");
    const outcomes = await Promise.all(claims);
    await Promise.all([first.query("COMMIT"), second.query("COMMIT")]);
    // They may be told to ask again at once; together they may not have more than there are slots.
    for (const { answer } of outcomes) expect(answer).not.toBeNull();
    await claim(client, queue, { most: 9 });
    const [{ active }] = (await rows(
      client,
      "SELECT count(*)::int AS active FROM workhorse.job WHERE queue_name = $1 AND state = 'active'",
      [queue],
    )) as [{ active: number }];
    expect(active).toBe(2);
  });

  test("is not overshot", async () => {
    await backlog(2000);
    let started = 0;
    let synced = false;
    const syncing = (async () => {
      while (started < 30) await client.query("SELECT 1");
      await syncCaps(client, queue, [{ queue, maxActive: 200 }]);
      synced = true;
    })();
    await Promise.all(
      workers.map(async (worker, n) => {
        for (;;) {
          const { jobs, answer } = await claim(worker, queue, { most: 1 + (n % 2) });
          started += jobs.length;
          if (answer && answer.waitMs !== 0) return;
        }
      }),
    );
    await syncing;
    expect(synced).toBe(true);
    const [{ active }] = (await rows(
      client,
      "SELECT count(*)::int AS active FROM workhorse.job WHERE queue_name = $1 AND state = 'active'",
      [queue],
    )) as [{ active: number }];
    expect(active).toBe(200);
  });
});

test("the clock is PostgreSQL's at the claim, not the transaction's start", async () => {
  await backlog(2);
  await client.query("BEGIN");
  const first = (await claim(client, queue)).jobs[0]!;
  const second = (await claim(client, queue)).jobs[0]!;
  const [{ begun }] = (await rows(client, "SELECT workhorse.to_us(now()) AS begun")) as [{ begun: string }];
  await client.query("COMMIT");
  expect(first.started_us > BigInt(begun)).toBe(true);
  expect(second.started_us > first.started_us).toBe(true);
});
