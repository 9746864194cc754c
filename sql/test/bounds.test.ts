import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { bounds } from "@workhorse/sql";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { backOff, claim, enqueue, fail, heartbeat, release, rows, syncCaps, syncRateLimits } from "./support/calls";

let database: TestDatabase;
let client: Client;
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
});
afterAll(() => database.drop());

const rate = { limit: 1, intervalMs: 1, burst: 1 };
const name = (bytes: number) => "x".repeat(bytes);
const list = <T>(length: number, item: (i: number) => T) => Array.from({ length }, (_, i) => item(i));
const job = (more: object) => enqueue(client, { queue: "q", ...more });
const started = async () => {
  await job({ queue: "claimed" });
  return (await claim(client, "claimed")).jobs[0]!;
};
const retrying = (retryPolicy: object) => job({ retryPolicy });

/** For each bound, the calls of SQL that it stands for. Each is refused with WH002 or does its work. */
const uses: Record<keyof typeof bounds, Record<string, (value: number) => Promise<unknown>>> = {
  nameBytes: {
    "namespace of rate limits": (n) => syncRateLimits(client, name(n), []),
    "namespace of caps": (n) => syncCaps(client, name(n), []),
    "queue of a rate limit": (n) => syncRateLimits(client, "n", [{ queue: name(n), rate }]),
    "queue of a cap": (n) => syncCaps(client, "n", [{ queue: name(n), maxActive: 1 }]),
    "type of a job": (n) => job({ type: name(n) }),
    "queue of a job": (n) => job({ queue: name(n) }),
    "key of a job": (n) => job({ concurrencyKey: name(n) }),
    "queue of a claim": (n) => claim(client, name(n)),
    "worker of a claim": (n) => claim(client, "q", { worker: name(n) }),
    "queue of a back-off": (n) => backOff(client, name(n), null, 0),
    "key of a back-off": (n) => backOff(client, "q", name(n), 0),
  },
  rateLimit: {
    rate: (limit) => syncRateLimits(client, "n", [{ queue: "q", rate: { ...rate, limit } }]),
    perKey: (limit) => syncRateLimits(client, "n", [{ queue: "q", rate, perKey: { ...rate, limit } }]),
  },
  rateIntervalMs: {
    rate: (intervalMs) => syncRateLimits(client, "n", [{ queue: "q", rate: { ...rate, intervalMs } }]),
    perKey: (intervalMs) => syncRateLimits(client, "n", [{ queue: "q", rate, perKey: { ...rate, intervalMs } }]),
  },
  rateBurst: {
    rate: (burst) => syncRateLimits(client, "n", [{ queue: "q", rate: { ...rate, burst } }]),
    perKey: (burst) => syncRateLimits(client, "n", [{ queue: "q", rate, perKey: { ...rate, burst } }]),
  },
  maxActive: {
    maxActive: (maxActive) => syncCaps(client, "n", [{ queue: "q", maxActive }]),
    maxActivePerKey: (n) => syncCaps(client, "n", [{ queue: "q", maxActive: 1_000_000, maxActivePerKey: n }]),
  },
  definitions: {
    "rate limits": (n) =>
      syncRateLimits(
        client,
        "n",
        list(n, (i) => ({ queue: `q${i}`, rate })),
      ),
    caps: (n) =>
      syncCaps(
        client,
        "n",
        list(n, (i) => ({ queue: `q${i}`, maxActive: 1 })),
      ),
  },
  enqueuedJobs: { "jobs of a call": (n) => enqueue(client, ...list(n, () => ({ queue: "q" }))) },
  priority: { priority: (priority) => job({ priority }) },
  maxAttempts: { maxAttempts: (maxAttempts) => job({ maxAttempts }) },
  claimedJobs: { "jobs of a claim": (most) => claim(client, "empty", { most }) },
  leaseMs: {
    claim: (leaseMs) => claim(client, "empty", { leaseMs }),
    heartbeat: (leaseMs) => heartbeat(client, [], leaseMs),
  },
  delayMs: {
    "a delayed job": (delayMs) => job({ delayMs }),
    "fixed retries": (delayMs) => retrying({ kind: "fixed", delayMs }),
    "exponential retries' first": (n) =>
      retrying({ kind: "exponential", initialDelayMs: n, multiplier: 2, maxDelayMs: 1 }),
    "exponential retries' longest": (n) =>
      retrying({ kind: "exponential", initialDelayMs: 1, multiplier: 2, maxDelayMs: n }),
    "jittered retries' base": (n) => retrying({ kind: "decorrelated-jitter", baseDelayMs: n, maxDelayMs: 1 }),
    "jittered retries' longest": (n) => retrying({ kind: "decorrelated-jitter", baseDelayMs: 1, maxDelayMs: n }),
    "an asked retry": async (delayMs) => fail(client, await started(), { delayMs }),
    "a release": async (delayMs) => release(client, await started(), delayMs),
    "a back-off": (forMs) => backOff(client, "backed off", null, forMs),
    "how long finished jobs are kept": (keepMs) => client.query("SELECT workhorse.sweep_v1(10, $1)", [keepMs]),
  },
  retryMultiplier: {
    multiplier: (multiplier) => retrying({ kind: "exponential", initialDelayMs: 1, multiplier, maxDelayMs: 1 }),
  },
};

/** What became of a call: "accepted", or the SQLSTATE by which it was refused. */
const outcome = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => "accepted",
    (error) => error.code ?? String(error),
  );

describe.each(Object.entries(uses) as [keyof typeof bounds, Record<string, (value: number) => Promise<unknown>>][])(
  "bounds.%s is what SQL accepts:",
  (bound, calls) => {
    const { min, max } = bounds[bound];
    test.each(Object.entries(calls))("%s", async (_, call) => {
      expect(await outcome(call(min))).toBe("accepted");
      expect(await outcome(call(max))).toBe("accepted");
      expect(await outcome(call(max + 1))).toBe("WH002");
      // There is no list of -1 elements.
      if (bound !== "definitions" && bound !== "enqueuedJobs") expect(await outcome(call(min - 1))).toBe("WH002");
    });
  },
);

test("the multiplier of retries takes fractions, up to its bounds exactly", async () => {
  const [multiplier] = Object.values(uses.retryMultiplier);
  expect(await outcome(multiplier!(1.5))).toBe("accepted");
  expect(await outcome(multiplier!(0.999))).toBe("WH002");
  expect(await outcome(multiplier!(100.001))).toBe("WH002");
});

test("maxActivePerKey goes to maxActive", async () => {
  const cap = (maxActive: number, maxActivePerKey: number) =>
    syncCaps(client, "n", [{ queue: "q", maxActive, maxActivePerKey }]);
  expect(await outcome(cap(3, 3))).toBe("accepted");
  expect(await outcome(cap(3, 4))).toBe("WH002");
});

test("bytes count, not characters", async () => {
  expect(await outcome(job({ concurrencyKey: "😀".repeat(64) }))).toBe("accepted");
  expect(await outcome(job({ concurrencyKey: `${"😀".repeat(64)}x` }))).toBe("WH002");
});

test("the tables hold to the same bounds, whoever writes to them", async () => {
  const limit = { queue_name: "own", namespace: "n", rate_limit: 1, rate_interval_ms: 1, rate_burst: 1 };
  const cap = { queue_name: "own", namespace: "n", max_active: 1_000_000 };
  const perKey = { per_key_limit: 1, per_key_interval_ms: 1, per_key_burst: 1 };
  const cases: [table: string, row: object, column: string, bound: { min: number; max: number }][] = [
    ["rate_limit_policy", limit, "rate_limit", bounds.rateLimit],
    ["rate_limit_policy", limit, "rate_interval_ms", bounds.rateIntervalMs],
    ["rate_limit_policy", limit, "rate_burst", bounds.rateBurst],
    ["rate_limit_policy", { ...limit, ...perKey }, "per_key_limit", bounds.rateLimit],
    ["rate_limit_policy", { ...limit, ...perKey }, "per_key_interval_ms", bounds.rateIntervalMs],
    ["rate_limit_policy", { ...limit, ...perKey }, "per_key_burst", bounds.rateBurst],
    ["concurrency_policy", cap, "max_active", bounds.maxActive],
    ["concurrency_policy", cap, "max_active_per_key", bounds.maxActive],
  ];
  for (const [table, row, column, { min, max }] of cases) {
    for (const [value, expected] of [
      [min, "accepted"],
      [max, "accepted"],
      [min - 1, "23514"],
      [max + 1, "23514"],
    ] as const) {
      const text = `INSERT INTO workhorse.${table}
        SELECT * FROM jsonb_populate_record(NULL::workhorse.${table}, $1)`;
      await client.query("BEGIN");
      const given = JSON.stringify({ ...row, updated_at: "2030-01-01T00:00:00Z", [column]: value });
      expect([column, value, await outcome(rows(client, text, [given]))]).toEqual([column, value, expected]);
      await client.query("ROLLBACK");
    }
  }
});
