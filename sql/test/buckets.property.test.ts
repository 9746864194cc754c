import { afterAll, beforeAll, expect, test } from "@jest/globals";
import fc from "fast-check";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { claim, enqueue, type Rate, rows, sweepStep, syncRateLimits } from "./support/calls";
import { TestClock } from "./support/clock";
import { IdealQueue } from "./support/ideal";

let database: TestDatabase;
let client: Client;
let clock: TestClock;
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
  clock = await TestClock.install(client);
});
afterAll(() => database.drop());

const runs = Number(process.env.WORKHORSE_BUCKET_RUNS ?? 40);
const seed = process.env.WORKHORSE_BUCKET_SEED ? { seed: Number(process.env.WORKHORSE_BUCKET_SEED) } : {};

type Policy = { readonly rate: Rate; readonly perKey: Rate | null } | null;
type Step =
  | { readonly do: "advance"; readonly us: number }
  /** `pause`: microseconds between the old owner's sync and the new one's, when the policy changes hands. */
  | { readonly do: "define"; readonly namespace: string; readonly policy: Policy; readonly pause: number }
  | { readonly do: "claim"; readonly key: string | null; readonly asked: number }
  | { readonly do: "sweep"; readonly limit: number };

/** Few tokens and slow enough that buckets are empty as often as full. */
const tight: fc.Arbitrary<Rate> = fc.record({
  limit: fc.integer({ min: 1, max: 9 }),
  intervalMs: fc.constantFrom(1, 7, 999, 1000, 60_000),
  burst: fc.integer({ min: 1, max: 7 }),
});
const any: fc.Arbitrary<Rate> = fc.record({
  limit: fc.oneof(fc.constant(1_000_000), fc.integer({ min: 1, max: 1_000_000 })),
  intervalMs: fc.oneof(fc.constantFrom(1, 86_400_000), fc.integer({ min: 1, max: 86_400_000 })),
  burst: fc.oneof(fc.constant(1_000_000), fc.integer({ min: 1, max: 1_000_000 })),
});
const rate = fc.oneof({ weight: 4, arbitrary: tight }, any);
const policy = fc.option(fc.record({ rate, perKey: fc.option(rate, { freq: 4 }) }), { freq: 3 });

const forward = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 20_000 }) },
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 3_000_000 }) },
  fc.integer({ min: 1, max: 400_000_000 }),
  fc.constantFrom(86_400_000_000, 315_360_000_000_000),
);
const backward = fc.integer({ min: -2_000_000, max: -1 });

const steps = (advance: fc.Arbitrary<number>, ...more: fc.Arbitrary<Step>[]): fc.Arbitrary<Step[]> =>
  fc.array(
    fc.oneof(
      ...more,
      { weight: 4, arbitrary: fc.record({ do: fc.constant("advance" as const), us: advance }) },
      {
        weight: 4,
        arbitrary: fc.record({
          do: fc.constant("define" as const),
          namespace: fc.constantFrom("one", "two"),
          policy,
          pause: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 500_000 })),
        }),
      },
      {
        weight: 6,
        arbitrary: fc.record({
          do: fc.constant("claim" as const),
          key: fc.constantFrom(null, "a", "b", "c"),
          asked: fc.integer({ min: 1, max: 9 }),
        }),
      },
    ),
    { minLength: 10, maxLength: 50 },
  );

let queues = 0;

/** Takes the steps on a queue of its own, in PostgreSQL and in the ideal, and expects the same of both after each. */
async function replay(history: readonly Step[]): Promise<void> {
  const queue = `q${queues++}`;
  const ideal = new IdealQueue();
  let owner: string | null = null;
  await clock.set(1_800_000_000_000_000n);
  // Namespaces of this queue alone, so that a sync is of one policy.
  const sync = (namespace: string, policy: Policy) =>
    syncRateLimits(client, `${namespace} ${queue}`, policy ? [{ queue, ...policy }] : []);

  for (const step of history) {
    if (step.do === "advance") {
      await clock.advance(step.us);
    } else if (step.do === "define") {
      if (owner !== null && owner !== step.namespace) {
        await sync(owner, null);
        ideal.define(null, clock.nowUs);
        await clock.advance(step.pause);
      }
      await sync(step.namespace, step.policy);
      ideal.define(step.policy, clock.nowUs);
      owner = step.policy ? step.namespace : null;
    } else if (step.do === "claim") {
      const jobs = Array.from({ length: step.asked }, () => ({
        queue,
        ...(step.key === null ? {} : { concurrencyKey: step.key }),
      }));
      await enqueue(client, ...jobs);
      const expected = ideal.claim(step.key, step.asked, clock.nowUs);
      const { jobs: started, answer } = await claim(client, queue, { most: step.asked });
      expect({ started: started.length, nextUs: answer?.nextUs ?? null }).toEqual(expected);
      expect(answer === null).toBe(expected.started === step.asked);
      // Whether a claim without a start wrote a reading down shows only if the clock steps back behind it, and may do so.
      if (started.length === 0) {
        const [read] = await rows(client, "SELECT filled_us FROM workhorse.queue_admission WHERE queue_name = $1", [
          queue,
        ]);
        if (read?.filled_us === String(clock.nowUs)) ideal.noteReading(clock.nowUs);
      }
      await client.query(
        "SELECT workhorse.cancel_v1(id) FROM workhorse.job WHERE queue_name = $1 AND state = 'ready'",
        [queue],
      );
    } else {
      await sweepStep(client, queue, step.limit);
    }
    const [status] = await rows(client, "SELECT available_tokens FROM workhorse.rate_limit_statuses_v1(ARRAY[$1])", [
      queue,
    ]);
    expect(status?.available_tokens ?? null).toBe(ideal.available(clock.nowUs));
  }
}

async function holds(histories: fc.Arbitrary<Step[]>): Promise<void> {
  await fc.assert(fc.asyncProperty(histories, replay), { numRuns: runs, ...seed });
}

test(
  "balances are the ideal's, to the microsecond, through changes, deletions, handovers and clocks that step back",
  () => holds(steps(fc.oneof({ weight: 4, arbitrary: forward }, backward))),
  600_000,
);

test(
  "and clean-up in small steps, at any moment, changes none of them",
  () =>
    holds(
      steps(
        forward,
        fc.record({ do: fc.constant("sweep" as const), limit: fc.integer({ min: 1, max: 4 }) }),
        fc.record({ do: fc.constant("sweep" as const), limit: fc.constant(1) }),
      ),
    ),
  600_000,
);
