import fc from "fast-check";
import type { Rate } from "./reference";

/** One step of a history. Jobs are named by their number among all enqueued so far, modulo. */
export type Step =
  | { readonly do: "advance"; readonly us: number }
  | { readonly do: "enqueue"; readonly jobs: readonly NewJob[]; readonly how: "plain" | "open" }
  | { readonly do: "finish open"; readonly how: "commit" | "rollback" }
  | { readonly do: "claim"; readonly most: number; readonly leaseMs: number; readonly rollBack: boolean }
  | HolderStep
  | { readonly do: "cancel"; readonly job: number }
  | { readonly do: "recover" | "promote" | "sweep" | "forget" }
  | { readonly do: "rate"; readonly rate: Rate | null; readonly perKey: Rate | null }
  | { readonly do: "caps"; readonly caps: { maxActive: number; maxActivePerKey: number | null } | null }
  | { readonly do: "back off"; readonly key: string | null; readonly forMs: number };

/** What only the holder of a lease may do. */
export type HolderStep =
  | { readonly do: "complete" | "heartbeat"; readonly job: number }
  | { readonly do: "fail" | "release"; readonly job: number; readonly delayMs: number };

export interface NewJob {
  readonly key: string | null;
  readonly priority: number;
  readonly delayMs: number;
}

const key = fc.constantFrom(null, "a", "b", "c", "d");
const delayMs = fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, fc.integer({ min: 1, max: 5000 }));
const newJob: fc.Arbitrary<NewJob> = fc.record({
  key,
  priority: fc.constantFrom(0, 0, 0, 1, -1, 32767, -32768),
  delayMs,
});

const smallRate: fc.Arbitrary<Rate> = fc.record({
  limit: fc.integer({ min: 1, max: 9 }),
  intervalMs: fc.constantFrom(1, 7, 1000, 1001, 60_000),
  burst: fc.integer({ min: 1, max: 6 }),
});
const anyRate: fc.Arbitrary<Rate> = fc.record({
  limit: fc.integer({ min: 1, max: 1_000_000 }),
  intervalMs: fc.integer({ min: 1, max: 86_400_000 }),
  burst: fc.integer({ min: 1, max: 1_000_000 }),
});
const rate = fc.oneof({ weight: 5, arbitrary: smallRate }, anyRate);
const job = fc.nat({ max: 60 });

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("advance" as const),
      us: fc.oneof(
        { weight: 4, arbitrary: fc.integer({ min: 1, max: 3_000_000 }) },
        fc.integer({ min: -2_000_000, max: -1 }),
        fc.integer({ min: 1, max: 400_000_000 }),
      ),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("enqueue" as const),
      jobs: fc.array(newJob, { minLength: 1, maxLength: 6 }),
      how: fc.constantFrom("plain" as const, "plain" as const, "open" as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("finish open" as const),
      how: fc.constantFrom("commit" as const, "commit" as const, "rollback" as const),
    }),
  },
  {
    weight: 9,
    arbitrary: fc.record({
      do: fc.constant("claim" as const),
      most: fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 12 })),
      leaseMs: fc.constantFrom(100, 1000, 30_000, 600_000),
      rollBack: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, fc.constant(true)),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constantFrom("complete" as const, "heartbeat" as const), job }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("cancel" as const), job }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constantFrom("fail" as const, "release" as const), job, delayMs }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("recover" as const, "promote" as const, "sweep" as const, "forget" as const),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("rate" as const),
      rate: fc.option(rate, { freq: 5 }),
      perKey: fc.option(rate, { freq: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("caps" as const),
      caps: fc.option(
        fc
          .record({
            maxActive: fc.integer({ min: 1, max: 6 }),
            maxActivePerKey: fc.option(fc.integer({ min: 1, max: 3 })),
          })
          .map((caps) => ({
            ...caps,
            maxActivePerKey: caps.maxActivePerKey === null ? null : Math.min(caps.maxActivePerKey, caps.maxActive),
          })),
        { freq: 4 },
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("back off" as const),
      key,
      forMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 10_000 })),
    }),
  },
);

/** Histories of one queue. */
export const history: fc.Arbitrary<Step[]> = fc.array(step, { minLength: 5, maxLength: 60 });
