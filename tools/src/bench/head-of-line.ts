import type { Client } from "pg";
import { withDatabase } from "./database";
import { interleave, timed, type Variant } from "./measure";
import type { Suite } from "./suite";

const others = 25;
const batch = 10;
/** One start at the beginning, and then none for as long as a benchmark lasts. */
const oneADay = { limit: 1, intervalMs: 86_400_000, burst: 1 };
const plenty = { limit: 1_000_000, intervalMs: 1, burst: 1_000_000 };

/** What stands in front of the other keys' jobs: so many keys, each out of tokens or at its cap, with so many jobs each. */
interface Backlog {
  readonly name: string;
  readonly keys: number;
  readonly each: number;
  readonly by: "tokens" | "slots";
  /** A transaction that stays open elsewhere, with a snapshot from before. */
  readonly held?: boolean;
}

const unloaded: Backlog = { name: "nothing in front", keys: 0, each: 0, by: "tokens" };

const backlogs: readonly Backlog[] = [
  unloaded,
  { name: "10,000 jobs of 1 key without tokens", keys: 1, each: 10_000, by: "tokens" },
  { name: "1,000,000 jobs of 1 key without tokens", keys: 1, each: 1_000_000, by: "tokens" },
  { name: "the same, a long transaction open", keys: 1, each: 1_000_000, by: "tokens", held: true },
  { name: "1,000,000 jobs of 1 key at its cap", keys: 1, each: 1_000_000, by: "slots" },
  { name: "100 jobs each of 10 keys without tokens", keys: 10, each: 100, by: "tokens" },
  { name: "100 jobs each of 10,000 keys without tokens", keys: 10_000, each: 100, by: "tokens" },
];

export const headOfLineSuite: Suite = {
  name: "head-of-line",
  about: "claims of other keys' jobs behind a long backlog of keys that wait",
  async run({ rounds, print }) {
    const first: Measured[] = [];
    const later: Measured[] = [];
    // Each on a server of its own: a million rows, and what a long transaction keeps, would weigh on the others.
    for (const backlog of backlogs) {
      await withDatabase(async (connect, version) => {
        if (backlog === unloaded) {
          print(`Claims of ${batch} behind a backlog, PostgreSQL ${version}, ${rounds} rounds; ms, lower is better`);
        }
        const holder = await connect();
        const client = await connect();
        await prepare(client, backlog);
        if (backlog.held === true) {
          await holder.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
          await holder.query("SELECT pg_current_xact_id()");
        }
        // Beside it, in the same round and on the same server, a queue with nothing in front.
        const results = await interleave(variants(client), rounds);
        first.push({ name: backlog.name, ms: results[1]!.median, ratio: results[1]!.ratio });
        later.push({ name: backlog.name, ms: results[3]!.median, ratio: results[3]!.median / results[2]!.median });
      });
    }
    print("\nfirst claim that starts other keys' jobs; ratio to the same without a backlog, side by side");
    print(table(first));
    print("\nmedian of the claims after it; ratio likewise");
    print(table(later));
    const at = (name: string): number => later.find((each) => each.name.startsWith(name))!.ms;
    print(
      `\n1,000,000 jobs in front against 10,000: ${(at("1,000,000 jobs of 1 key without") / at("10,000 jobs")).toFixed(2)}`,
    );
    print(
      `10,000 keys that wait against 10: ${(at("100 jobs each of 10,000") / at("100 jobs each of 10 ")).toFixed(2)}`,
    );
  },
};

interface Measured {
  readonly name: string;
  readonly ms: number;
  readonly ratio: number;
}

const table = (rows: readonly Measured[]): string =>
  rows
    .map(({ name, ms, ratio }) => `  ${name.padEnd(44)} ${ms.toFixed(2).padStart(8)} ms   ratio ${ratio.toFixed(2)}`)
    .join("\n");

const queueOf = { backlog: "behind", free: "free" } as const;

async function prepare(client: Client, { keys, each, by }: Backlog): Promise<void> {
  const rate = { rate: plenty, perKey: by === "tokens" ? oneADay : plenty };
  await client.query("SELECT workhorse.sync_rate_limit_policies_v1('bench', $1)", [
    JSON.stringify(Object.values(queueOf).map((queue) => ({ queue, ...rate }))),
  ]);
  await client.query("SELECT workhorse.sync_concurrency_policies_v1('bench', $1)", [
    JSON.stringify(
      by === "slots"
        ? Object.values(queueOf).map((queue) => ({ queue, maxActive: 1_000_000, maxActivePerKey: 1 }))
        : [],
    ),
  ]);
  // The first job of each key starts and takes what the key has; then the backlog comes.
  await insert(client, queueOf.backlog, keys, 1, "waiting");
  for (let left = keys; left > 0; left -= 1_000) await claim(client, queueOf.backlog, 1_000);
  await insert(client, queueOf.backlog, keys, each, "waiting");
  for (let left = keys; left > 0; left -= 1_000) await claim(client, queueOf.backlog, 1_000);
  await client.query("VACUUM ANALYZE workhorse.job, workhorse.lane, workhorse.queue_admission");
}

function variants(client: Client): Variant[] {
  let arrivals = 0;
  /** New keys, with their buckets full, behind all that waits. */
  const arrive = (queue: string, keys: number): Promise<void> => {
    arrivals += 1;
    return insert(client, queue, keys, 1, `other ${arrivals}`);
  };
  const measureOf = (kind: keyof typeof queueOf, part: "first" | "later"): Variant => ({
    name: `${kind}, ${part}`,
    async prepare() {
      // What came before is started, so that each round begins alike.
      while ((await claim(client, queueOf[kind], 1_000)) > 0);
      if (part === "first") await arrive(queueOf[kind], others);
    },
    async measure() {
      if (part === "first") return timed(() => claimSome(client, queueOf[kind]));
      const times: number[] = [];
      for (let i = 0; i < 30; i += 1) {
        await arrive(queueOf[kind], batch);
        times.push(await timed(() => claimSome(client, queueOf[kind])));
      }
      return times.sort((a, b) => a - b)[times.length >> 1]!;
    },
  });
  return [
    measureOf("free", "first"),
    measureOf("backlog", "first"),
    measureOf("free", "later"),
    measureOf("backlog", "later"),
  ];
}

async function claimSome(client: Client, queue: string): Promise<void> {
  const started = await claim(client, queue, batch);
  if (started === 0) throw new Error(`${queue}: no job of another key was started`);
}

async function claim(client: Client, queue: string, maxJobs: number): Promise<number> {
  const { rows } = await client.query<{ id: string | null }>({
    name: "claim",
    text: "SELECT id FROM workhorse.claim_v1($1, 'bench', $2, 86400000)",
    values: [queue, maxJobs],
  });
  return rows.filter(({ id }) => id !== null).length;
}

async function insert(client: Client, queue: string, keys: number, each: number, prefix: string): Promise<void> {
  await client.query(
    `INSERT INTO workhorse.job (state, queue_name, concurrency_key, type, payload, created_at)
     SELECT 'ready', $1, $4 || ' ' || k, 't', '{"n": 1}', clock_timestamp()
     FROM generate_series(1, $3::int) AS n, generate_series(1, $2::int) AS k`,
    [queue, keys, each, prefix],
  );
}
