import { withDatabase } from "./database";
import { formatResults, interleave, timed } from "./measure";
import type { Suite } from "./suite";

const count = 10_000;

export const syncSuite: Suite = {
  name: "sync",
  about: "a sync of 10,000 definitions, against a plain INSERT of as many rows",
  run: ({ rounds, print }) =>
    withDatabase(async (connect, version) => {
      const client = await connect();
      const definitions = (limit: number): string =>
        JSON.stringify(
          Array.from({ length: count }, (_, i) => ({
            queue: `queue ${i}`,
            rate: { limit, intervalMs: 60_000, burst: 10 },
            perKey: { limit: 5, intervalMs: 60_000, burst: 2 },
          })),
        );
      const sync = (json: string) =>
        client.query("SELECT count(*) FROM workhorse.sync_rate_limit_policies_v1('bench', $1)", [json]);
      await client.query("CREATE TABLE public.plain (LIKE workhorse.rate_limit_policy INCLUDING ALL)");
      const first = definitions(60);
      let turn = 0;
      const empty = async (): Promise<void> => {
        await client.query("TRUNCATE public.plain, workhorse.rate_limit_policy, workhorse.rate_limit_change");
      };
      const filled = async (): Promise<void> => {
        await empty();
        await sync(first);
      };
      const variants = [
        {
          name: "plain INSERT",
          prepare: empty,
          measure: () =>
            timed(() =>
              client.query(
                `INSERT INTO public.plain SELECT 'queue ' || n, 'bench', 60, 60000, 10, 5, 60000, 2, now()
                 FROM generate_series(1, $1::int) AS n`,
                [count],
              ),
            ),
        },
        { name: "sync, all new", prepare: empty, measure: () => timed(() => sync(first)) },
        {
          name: "sync, all changed",
          prepare: filled,
          measure: () => {
            turn += 1;
            return timed(() => sync(definitions(100 + turn)));
          },
        },
        { name: "sync, identical", prepare: filled, measure: () => timed(() => sync(first)) },
      ];
      print(`Sync of ${count.toLocaleString("en-US")} rate-limit definitions, PostgreSQL ${version}, ${rounds} rounds`);
      print(formatResults("ms", await interleave(variants, rounds)));
    }),
};
