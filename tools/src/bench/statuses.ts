import type { Client } from "pg";
import { withDatabase } from "./database";
import { formatResults, interleave, timed, type Variant } from "./measure";
import type { Suite } from "./suite";

const oneADay = { limit: 1, intervalMs: 86_400_000, burst: 1 };

/** Queues by what is ready in them. The names differ, the policies do not. */
const queues = [
  { name: "10 jobs of 10 keys", keys: 10, each: 1 },
  { name: "1,000,000 jobs of 1 key", keys: 1, each: 1_000_000 },
  { name: "1,000,000 jobs of 100,000 keys", keys: 100_000, each: 10 },
] as const;

const reads = [
  { name: "rate_limit_statuses_v1", sql: "SELECT * FROM workhorse.rate_limit_statuses_v1(ARRAY[$1])", scope: "queue" },
  {
    name: "concurrency_statuses_v1",
    sql: "SELECT * FROM workhorse.concurrency_statuses_v1(ARRAY[$1])",
    scope: "queue",
  },
  { name: "queue_health_v1", sql: "SELECT * FROM workhorse.queue_health_v1()", scope: "all" },
] as const;

export const statusesSuite: Suite = {
  name: "statuses",
  about: "statuses and health with a million ready jobs, against the same with ten",
  async run({ rounds, print }) {
    const unloaded: Record<string, number> = {};
    for (const queue of queues) {
      await withDatabase(async (connect, version) => {
        const client = await connect();
        await prepare(client, queue);
        if (queue === queues[0]) print(`Statuses, PostgreSQL ${version}, ${rounds} rounds; ms, lower is better`);
        const results = await interleave(
          // Beside a statement that never changes, so that what the machine does besides can be told.
          [roundTrip(client), ...reads.map((read) => variant(client, read, queue.name))],
          rounds,
        );
        print(`\n${queue.name}; ratio to SELECT 1 in the same round`);
        print(formatResults("ms", results));
        for (const { name, median } of results.slice(1)) {
          unloaded[name] ??= median;
          if (queue !== queues[0]) print(`  ${name}: ${(median / unloaded[name]).toFixed(1)} times the one with ten`);
        }
      });
    }
  },
};

async function prepare(client: Client, { name, keys, each }: (typeof queues)[number]): Promise<void> {
  await client.query("SELECT workhorse.sync_rate_limit_policies_v1('bench', $1)", [
    JSON.stringify([{ queue: name, rate: { limit: 1_000_000, intervalMs: 1, burst: 1_000_000 }, perKey: oneADay }]),
  ]);
  await client.query("SELECT workhorse.sync_concurrency_policies_v1('bench', $1)", [
    JSON.stringify([{ queue: name, maxActive: 1_000_000, maxActivePerKey: 1 }]),
  ]);
  const insert = (times: number) =>
    client.query(
      `INSERT INTO workhorse.job (state, queue_name, concurrency_key, type, payload, created_at)
       SELECT 'ready', $1, 'key ' || k, 't', '{"n": 1}', clock_timestamp()
       FROM generate_series(1, $3::int) AS n, generate_series(1, $2::int) AS k`,
      [name, keys, times],
    );
  await insert(1);
  for (let left = keys; left > 0; left -= 1_000) {
    await client.query("SELECT FROM workhorse.claim_v1($1, 'bench', 1000, 86400000)", [name]);
  }
  await insert(each);
  await client.query("SELECT FROM workhorse.claim_v1($1, 'bench', 10, 86400000)", [name]);
  await client.query("VACUUM ANALYZE");
}

function variant(client: Client, read: (typeof reads)[number], queue: string): Variant {
  return {
    name: read.name,
    measure: () =>
      timed(() => client.query({ name: read.name, text: read.sql, values: read.scope === "queue" ? [queue] : [] })),
  };
}

function roundTrip(client: Client): Variant {
  return { name: "SELECT 1", measure: () => timed(() => client.query({ name: "one", text: "SELECT 1" })) };
}
