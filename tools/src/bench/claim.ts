import type { Client } from "pg";
import { withDatabase } from "./database";
import { formatResults, interleave, timed, type Variant } from "./measure";
import type { Suite } from "./suite";

/** The cheapest claim there is: no limit, no lease rules, no fence; what every queue in SQL does at least. */
const floorSql = `
  UPDATE workhorse.job SET state = 'active', started_at = clock_timestamp(), worker_id = $2,
    attempt = attempt + 1, lease_expires_at = clock_timestamp() + interval '1 hour'
  WHERE id = ANY (ARRAY(
    SELECT id FROM workhorse.job WHERE queue_name = $1 AND state = 'ready' AND id > 0 -- the ready index's condition
    ORDER BY place LIMIT $3 FOR UPDATE SKIP LOCKED))
  RETURNING id, type, payload, concurrency_key, attempt, lease_expires_at`;
const claimSql = "SELECT * FROM workhorse.claim_v1($1, $2, $3, 3600000)";

const plenty = { limit: 1_000_000, intervalMs: 1, burst: 1_000_000 };

/** Queues by what governs them. `keys`: how many concurrency keys their jobs have, spread evenly. */
const queues = [
  { name: "floor", sql: floorSql, keys: 0 },
  { name: "ungoverned", sql: claimSql, keys: 0 },
  { name: "queue bucket", sql: claimSql, keys: 0, rate: { rate: plenty } },
  { name: "queue cap", sql: claimSql, keys: 0, caps: { maxActive: 1_000_000 } },
  { name: "keyed, 10 keys", sql: claimSql, keys: 10, rate: { rate: plenty, perKey: plenty } },
  { name: "keyed, 1,000 keys", sql: claimSql, keys: 1000, rate: { rate: plenty, perKey: plenty } },
] as const;

const cells = [1, 10, 100].flatMap((batch) => [1, 8].map((clients) => ({ batch, clients })));
/** Claims of one client in a round: enough that a round takes a good part of a second. */
const claimsPerClient: Record<number, number> = { 1: 150, 10: 60, 100: 15 };

export const claimSuite: Suite = {
  name: "claim",
  about: "claims per batch and number of clients, against the cheapest claim there is",
  run: ({ rounds, print }) =>
    withDatabase(async (connect, version) => {
      const owner = await connect();
      const clients = await Promise.all(Array.from({ length: 8 }, connect));
      const rates = queues.flatMap((queue) => ("rate" in queue ? [{ queue: queue.name, ...queue.rate }] : []));
      const caps = queues.flatMap((queue) => ("caps" in queue ? [{ queue: queue.name, ...queue.caps }] : []));
      await owner.query("SELECT workhorse.sync_rate_limit_policies_v1('bench', $1)", [JSON.stringify(rates)]);
      await owner.query("SELECT workhorse.sync_concurrency_policies_v1('bench', $1)", [JSON.stringify(caps)]);
      print(`Claims, PostgreSQL ${version}, ${rounds} rounds; ratio of jobs per second to the floor in the same round`);
      for (const cell of cells) {
        const variants = queues.map((queue) => variant(queue, cell, owner, clients.slice(0, cell.clients)));
        const results = await interleave(variants, rounds);
        print(`\nbatch ${cell.batch}, ${cell.clients} client${cell.clients > 1 ? "s" : ""}`);
        print(formatResults("jobs/s", results));
      }
    }),
};

function variant(
  queue: (typeof queues)[number],
  { batch }: { batch: number },
  owner: Client,
  clients: readonly Client[],
): Variant {
  const claims = claimsPerClient[batch]!;
  const jobs = claims * clients.length * batch;
  return {
    name: queue.name,
    async prepare() {
      // Every round starts from the same: no dead rows, as many ready jobs as will be claimed, the lanes followed.
      await owner.query("DELETE FROM workhorse.job WHERE queue_name = $1", [queue.name]);
      await owner.query(
        `INSERT INTO workhorse.job (state, queue_name, concurrency_key, type, payload, created_at)
         SELECT 'ready', $1, CASE WHEN $3 > 0 THEN 'key ' || n % $3 END, 't', '{"n": 1}', clock_timestamp()
         FROM generate_series(1, $2::int) AS n`,
        [queue.name, jobs + clients.length * batch, queue.keys],
      );
      await owner.query("VACUUM ANALYZE workhorse.job");
      await owner.query("VACUUM workhorse.lane, workhorse.queue_admission");
      // ANALYZE made every session's plans void: each plans anew before the clock starts.
      for (const client of clients) await hammer(client, queue, 0, batch, 1);
    },
    async measure() {
      const ms = await timed(() =>
        Promise.all(clients.map((client, number) => hammer(client, queue, number, batch, claims))),
      );
      return (jobs / ms) * 1000;
    },
  };
}

async function hammer(
  client: Client,
  queue: (typeof queues)[number],
  number: number,
  batch: number,
  claims: number,
): Promise<void> {
  const name = queue.sql === floorSql ? "floor" : "claim";
  for (let i = 0; i < claims; i += 1) {
    const { rows } = await client.query({ name, text: queue.sql, values: [queue.name, `w${number}`, batch] });
    // Under SKIP LOCKED the last claims may find a little less; nothing at all would be a fault of the benchmark.
    if (rows.length === 0) throw new Error(`${queue.name}: nothing left to claim`);
  }
}
