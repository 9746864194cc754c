import { afterAll, beforeAll, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { expectNoneTwice } from "./support/audit";
import {
  backOff,
  cancel,
  claim,
  complete,
  completeMany,
  enqueue,
  fail,
  heartbeat,
  release,
  rows,
  type Started,
  syncCaps,
  syncRateLimits,
} from "./support/calls";

let database: TestDatabase;
let clients: Client[];
beforeAll(async () => {
  database = await testDatabase();
  clients = await Promise.all(Array.from({ length: 10 }, () => database.connect()));
});
afterAll(() => database.drop());

/** A reproducible sequence of numbers from 0 to 1 (mulberry32). */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

test("everything at once on ten connections: no deadlock, no error but a lost lease, no start given twice, nothing lost", async () => {
  const started: Started[] = [];
  const enqueued: string[] = [];
  const fast = { limit: 1000, intervalMs: 1, burst: 1000 };

  await Promise.all(
    clients.map(async (client, n) => {
      const next = random(n + 1);
      const pick = <T>(...choices: T[]): T => choices[Math.floor(next() * choices.length)]!;
      const queue = () => pick("x", "y", "z");
      const key = () => pick("a", "b", "c");
      const mine: Started[] = [];
      const moves: [weight: number, move: () => Promise<unknown>][] = [
        [
          6,
          async () => {
            const jobs = Array.from({ length: pick(1, 5, 20) }, () => ({
              queue: queue(),
              priority: pick(0, 1),
              retryPolicy: { kind: "fixed", delayMs: 0 },
              ...(next() < 0.8 ? { concurrencyKey: key() } : {}),
            }));
            enqueued.push(...(await enqueue(client, ...jobs)));
          },
        ],
        [
          10,
          async () => {
            const { jobs } = await claim(client, queue(), {
              most: pick(1, 3, 10),
              worker: `w${n}`,
              leaseMs: pick(100, 60_000),
            });
            started.push(...jobs);
            mine.push(...jobs);
          },
        ],
        [4, async () => mine.length > 0 && complete(client, mine.shift()!)],
        [2, async () => mine.length > 0 && completeMany(client, mine.splice(0, 5).reverse())],
        [2, async () => mine.length > 0 && fail(client, mine.shift()!)],
        [1, async () => mine.length > 0 && release(client, mine.shift()!, 0)],
        [3, async () => heartbeat(client, mine, 60_000)],
        [1, async () => enqueued.length > 0 && cancel(client, pick(...enqueued.slice(-50)))],
        [1, async () => client.query("SELECT workhorse.recover_expired_v1(20)")],
        [1, async () => client.query("SELECT workhorse.promote_v1(20)")],
        [1, async () => client.query("SELECT workhorse.sweep_v1(20, 0)")],
        [1, async () => backOff(client, queue(), pick(null, key()), pick(0, 20))],
        [
          1,
          async () =>
            syncRateLimits(
              client,
              "n",
              ["x", "y", "z"]
                .filter(() => next() < 0.7)
                .map((queue) => ({ queue, rate: fast, perKey: pick(null, fast) })),
            ),
        ],
        [
          1,
          async () =>
            syncCaps(
              client,
              "n",
              ["z", "y", "x"]
                .filter(() => next() < 0.7)
                .map((queue) => ({ queue, maxActive: pick(50, 200), maxActivePerKey: pick(null, 40) })),
            ),
        ],
        [1, async () => client.query("SELECT * FROM workhorse.queue_health_v1()")],
        [1, async () => client.query("SELECT * FROM workhorse.rate_limit_statuses_v1()")],
      ];
      const weighted = moves.flatMap(([weight, move]) => Array<typeof move>(weight).fill(move));
      for (let i = 0; i < 100; i++) {
        await pick(...weighted)().catch((error) => {
          if (error.code !== "WH004") throw error;
        });
      }
    }),
  );
  expectNoneTwice(started);
  expect(started.length).toBeGreaterThan(100);

  // Each job that was accepted is there in one of its states, or finished and swept.
  const client = clients[0]!;
  await syncCaps(client, "n", []);
  await syncRateLimits(client, "n", []);
  await client.query("DELETE FROM workhorse.back_off");
  await client.query("UPDATE workhorse.job SET lease_expires_at = now() WHERE state = 'active'");
  await client.query("SELECT workhorse.recover_expired_v1(10000)");
  await client.query("UPDATE workhorse.job SET run_at = now() WHERE state = 'scheduled'");
  for (const queue of ["x", "y", "z"]) {
    for (let more = true; more; ) {
      const { jobs } = await claim(client, queue, { most: 1000 });
      for (const job of jobs) await complete(client, job);
      more = jobs.length > 0;
    }
  }
  const unfinished = await rows(
    client,
    "SELECT id, state FROM workhorse.job WHERE state NOT IN ('completed', 'failed', 'cancelled')",
  );
  expect(unfinished).toEqual([]);
});
