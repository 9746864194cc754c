import type { Client } from "pg";
import { withDatabase } from "./database";
import { formatResults, interleave, timed, type Variant } from "./measure";
import type { Suite } from "./suite";

const transactions: Record<number, number> = { 1: 200, 100: 20 };

/** What any queue in SQL has at least: the same columns, the primary key and the line of ready jobs. */
const plainTable = `
  CREATE TABLE public.plain (LIKE workhorse.job INCLUDING DEFAULTS INCLUDING IDENTITY INCLUDING GENERATED, PRIMARY KEY (id));
  CREATE INDEX ON public.plain (queue_name, place) WHERE state = 'ready';
  CREATE TABLE public.indexed (LIKE workhorse.job INCLUDING ALL)`;

const insertInto = (table: string): string => `
  INSERT INTO ${table} (state, queue_name, concurrency_key, type, payload, created_at)
  SELECT 'ready', job ->> 'queue', job ->> 'concurrencyKey', job ->> 'type', job -> 'payload', clock_timestamp()
  FROM jsonb_array_elements($1::jsonb) AS job
  RETURNING id`;

const ways = [
  { name: "plain INSERT", sql: insertInto("public.plain") },
  { name: "INSERT with the job table's indexes", sql: insertInto("public.indexed") },
  { name: "enqueue_v1", sql: "SELECT workhorse.enqueue_v1($1)" },
] as const;

export const enqueueSuite: Suite = {
  name: "enqueue",
  about: "enqueuing, against a plain INSERT of the same jobs",
  run: ({ rounds, print }) =>
    withDatabase(async (connect, version) => {
      const clients = await Promise.all(Array.from({ length: 8 }, connect));
      const owner = clients[0]!;
      await owner.query(plainTable);
      await owner.query("SELECT workhorse.sync_rate_limit_policies_v1('bench', $1)", [
        JSON.stringify([
          {
            queue: "q",
            rate: { limit: 1, intervalMs: 1_000, burst: 1 },
            perKey: { limit: 1, intervalMs: 1_000, burst: 1 },
          },
        ]),
      ]);
      print(`Enqueue into a queue with limits, PostgreSQL ${version}, ${rounds} rounds; ratio of jobs per second`);
      for (const batch of [1, 100]) {
        for (const count of [1, 8]) {
          const some = clients.slice(0, count);
          print(`\n${batch} a transaction, ${count} client${count > 1 ? "s" : ""}`);
          print(
            formatResults(
              "jobs/s",
              await interleave(
                ways.map((way) => variant(way, batch, owner, some)),
                rounds,
              ),
            ),
          );
        }
      }
    }),
};

function variant(way: (typeof ways)[number], batch: number, owner: Client, clients: readonly Client[]): Variant {
  const count = transactions[batch]!;
  let number = 0;
  const send = async (client: Client): Promise<void> => {
    const jobs = Array.from({ length: batch }, () => {
      number += 1;
      return {
        type: "invoice.send",
        queue: "q",
        concurrencyKey: `customer ${number % 100}`,
        payload: { invoice: number },
      };
    });
    await client.query({ name: way.name, text: way.sql, values: [JSON.stringify(jobs)] });
  };
  return {
    name: way.name,
    async prepare() {
      await owner.query("TRUNCATE public.plain, public.indexed, workhorse.job");
      for (const client of clients) await send(client);
    },
    async measure() {
      const ms = await timed(() =>
        Promise.all(
          clients.map(async (client) => {
            for (let i = 0; i < count; i += 1) await send(client);
          }),
        ),
      );
      return (count * batch * clients.length * 1000) / ms;
    },
  };
}
