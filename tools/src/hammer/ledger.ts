import type { Client, Pool } from "pg";
import { findExcess } from "../bounds/bucket";
import type { Scenario } from "./scenarios";

/**
 * Writes down every start and every end in the transaction that makes it, so that what is rolled back leaves no trace and
 * what is committed always does. `active` is what the starting transaction itself sees in that moment.
 */
const ledgerSql = `
  CREATE TABLE public.start (job bigint, fence bigint, key text, at timestamptz, lease timestamptz, active int, active_of_key int,
    PRIMARY KEY (job, fence));
  CREATE TABLE public.ended (job bigint, fence bigint, at timestamptz, state text);
  CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF NEW.state = 'active' AND OLD.state <> 'active' THEN
      INSERT INTO public.start SELECT NEW.id, NEW.fence_token, NEW.concurrency_key, NEW.started_at, NEW.lease_expires_at,
        count(*), count(*) FILTER (WHERE j.concurrency_key = NEW.concurrency_key)
      FROM workhorse.job AS j
      WHERE j.queue_name = NEW.queue_name AND j.state = 'active' AND j.lease_expires_at > NEW.started_at;
    ELSIF OLD.state = 'active' AND NEW.state <> 'active' THEN
      INSERT INTO public.ended VALUES (OLD.id, OLD.fence_token, clock_timestamp(), NEW.state);
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER note AFTER UPDATE ON workhorse.job FOR EACH ROW EXECUTE FUNCTION public.note()`;

type Queryable = Client | Pool;

export async function installLedger(client: Queryable): Promise<void> {
  await client.query(ledgerSql);
}

interface StartRow {
  readonly job: string;
  readonly fence: string;
  readonly key: string | null;
  readonly at_us: string;
  readonly active: number;
  readonly active_of_key: number;
}

/** What the ledger says. */
export interface Verdict {
  readonly starts: number;
  /** Each a sentence; none is what is hoped for. */
  readonly faults: readonly string[];
  /** Microseconds since 1970, by key ("" for all), ascending. */
  readonly startsUs: ReadonlyMap<string, readonly bigint[]>;
}

/** Holds the starts so far against what the scenario allows. `fromUs`: when the policies were made. */
export async function judgeStarts(client: Queryable, scenario: Scenario, fromUs: bigint): Promise<Verdict> {
  const { rows } = await client.query<StartRow>(
    `SELECT job, fence, key, (extract(epoch FROM at) * 1000000)::bigint AS at_us, active, active_of_key
     FROM public.start ORDER BY at`,
  );
  const startsUs = new Map<string, bigint[]>([["", []]]);
  for (const { key, at_us } of rows) {
    startsUs.get("")!.push(BigInt(at_us));
    if (key === null) continue;
    const of = startsUs.get(key) ?? [];
    of.push(BigInt(at_us));
    startsUs.set(key, of);
  }
  const faults: string[] = [];
  const { rate, caps } = scenario;
  for (const [key, times] of startsUs) {
    const limit = key === "" ? rate?.rate : rate?.perKey;
    if (!limit) continue;
    const excess = findExcess(times, [{ ...limit, fromUs }]);
    if (excess)
      faults.push(`${key || "the queue"}: ${excess.starts} starts in ${excess.lengthUs} us, allowed ${excess.allowed}`);
  }
  for (const row of rows) {
    if (caps && row.active > caps.maxActive) faults.push(`job ${row.job} was started as number ${row.active}`);
    if (caps?.maxActivePerKey != null && row.key !== null && row.active_of_key > caps.maxActivePerKey) {
      faults.push(`job ${row.job} was started as number ${row.active_of_key} of its key`);
    }
  }
  return { starts: rows.length, faults, startsUs };
}

/** Jobs that did not end, or ran twice, once everything has been run to its end. */
export async function lostAndDoubled(client: Queryable): Promise<string[]> {
  const { rows } = await client.query<{ fault: string }>(
    `SELECT format('job %s is %s, with fence token %s and %s starts', j.id, j.state, j.fence_token, count(s.job)) AS fault
     FROM workhorse.job AS j LEFT JOIN public.start AS s ON s.job = j.id
     GROUP BY j.id HAVING j.state <> 'completed' OR count(s.job) <> j.fence_token
     UNION ALL
     SELECT format('job %s was started again at %s, while start %s had a lease until %s', b.job, b.at, a.fence, a.lease)
     FROM public.start AS a JOIN public.start AS b ON b.job = a.job AND b.fence = a.fence + 1
     LEFT JOIN public.ended AS e ON e.job = a.job AND e.fence = a.fence
     WHERE b.at < a.lease AND (e.at IS NULL OR e.at > b.at + interval '1 second')
     UNION ALL
     SELECT format('job %s ended %s times under fence token %s', job, count(*), fence)
     FROM public.ended GROUP BY job, fence HAVING count(*) > 1
     LIMIT 20`,
  );
  return rows.map(({ fault }) => fault);
}
