import { afterAll, beforeAll, beforeEach, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { claim, enqueue, rows, syncRateLimits } from "./support/calls";

let database: TestDatabase;
let client: Client;
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
});
afterAll(() => database.drop());

let queue: string;
let queues = 0;
beforeEach(() => {
  queue = `q${queues++}`;
});

const plenty = { limit: 1, intervalMs: 86_400_000, burst: 1_000_000 };
const key = (n: number) => `k${String(n).padStart(6, "0")}`;
const jobOf = (n: number) => ({ queue, concurrencyKey: key(n) });
/** More keys than one claim judges. */
const MANY = 10_100;

/** Many keys that have a ready job and no tokens. */
async function throttledKeys(): Promise<void> {
  await syncRateLimits(client, queue, [{ queue, rate: plenty, perKey: { ...plenty, burst: 1 } }]);
  await client.query(
    `INSERT INTO workhorse.lane (queue_name, concurrency_key, revision, credits, filled_us)
     SELECT $1, 'k' || to_char(n, 'FM000000'), 1, 0, workhorse.to_us(workhorse.clock()) FROM generate_series(0, $2) AS n`,
    [queue, MANY - 1],
  );
  for (let from = 0; from < MANY; from += 5_000) {
    await enqueue(client, ...Array.from({ length: Math.min(5_000, MANY - from) }, (_, i) => jobOf(from + i)));
  }
}

/** Claims until it is not to ask again at once; returns the keys of what started, claim by claim. */
async function claimed(between: () => Promise<unknown> = async () => {}): Promise<(string | null)[][]> {
  const found: (string | null)[][] = [];
  for (let claims = 0; claims < 6; claims++) {
    const { jobs, answer } = await claim(client, queue, { most: 5 });
    found.push(jobs.map(({ concurrency_key }) => concurrency_key));
    if (answer?.waitMs !== 0) return found;
    await between();
  }
  throw new Error(`asked again at once, again and again; started: ${JSON.stringify(found)}`);
}

/** What a copy of all rows into a cluster that has counted far fewer transactions leaves. */
async function copyToYoungerCluster(): Promise<void> {
  await client.query(
    `UPDATE workhorse.job SET event_xid = (pg_snapshot_xmax(pg_current_snapshot())::text::numeric + 1000000 + id)::text::xid8
    WHERE queue_name = $1`,
    [queue],
  );
  await client.query("UPDATE workhorse.queue_admission SET system_identifier = 1 WHERE queue_name = $1", [queue]);
}

test("after a copy into a cluster with lower transaction ids, the lanes are built once and every key has its turn", async () => {
  await throttledKeys();
  await claimed();
  await enqueue(client, { queue, concurrencyKey: "z" });
  await copyToYoungerCluster();
  expect((await claimed()).flat()).toEqual(["z"]);
  // What was copied is no event any more, new jobs are.
  await enqueue(client, { queue, concurrencyKey: "zz" });
  const { jobs, answer } = await claim(client, queue, { most: 5 });
  expect(jobs.map(({ concurrency_key }) => concurrency_key)).toEqual(["zz"]);
  expect(answer!.waitMs).toBeGreaterThan(0);
  const [row] = await rows(client, "SELECT rebuild_after FROM workhorse.queue_admission WHERE queue_name = $1", [
    queue,
  ]);
  expect(row!.rebuild_after).toBeNull();
});

test("however much happens meanwhile, a rebuild gets to its end: the last keys have their turn", async () => {
  await throttledKeys();
  await enqueue(client, { queue, concurrencyKey: "z" });
  const found = await claimed(() => enqueue(client, ...Array.from({ length: 1_100 }, (_, n) => jobOf(n))));
  expect(found.flat()).toEqual(["z"]);
  // Nor is anything lost of what happened meanwhile.
  await enqueue(client, { queue, concurrencyKey: "b" });
  expect((await claimed()).flat()).toEqual(["b"]);
});

test("jobs whose lanes were truncated are found again", async () => {
  await syncRateLimits(client, queue, [{ queue, rate: plenty, perKey: { ...plenty, burst: 1 } }]);
  await enqueue(client, ...[1, 2, 3].map(jobOf));
  expect((await claim(client, queue)).jobs).toHaveLength(1);
  await client.query("TRUNCATE workhorse.lane");
  expect((await claim(client, queue, { most: 5 })).jobs.map(({ concurrency_key }) => concurrency_key)).toEqual([
    key(2),
    key(3),
  ]);
});
