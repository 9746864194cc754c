import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { Queue } from "@workhorse/queue";
import { type TestDatabase, testDatabase } from "../../../test/support/database";
import { BUSY_CUSTOMER, CAPTURE, PROVIDER_API } from "./load";
import { read } from "./readings";

const BURST = 60;
const DAY_MS = 86_400_000;

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database.drop());

test("tokens, starts and waiting jobs of a reading are of one moment, whatever starts meanwhile", async () => {
  const queue = new Queue(database.pool);
  await queue.syncRateLimitPolicies("billing", [
    { queue: PROVIDER_API, rate: { limit: 1, intervalMs: DAY_MS, burst: BURST } },
  ]);
  const job = { type: CAPTURE, queue: PROVIDER_API, concurrencyKey: BUSY_CUSTOMER };
  await queue.enqueueMany(Array.from({ length: BURST }, () => job));

  const startAll = async () => {
    for (let started = 0; started < BURST; started += 1) {
      const { jobs } = await queue.claim({ queue: PROVIDER_API, workerId: "w", leaseMs: 60_000 });
      expect(jobs).toHaveLength(1);
    }
  };
  let all = false;
  const starting = startAll().finally(() => {
    all = true;
  });
  const sums: unknown[] = [];
  do {
    const { queues, busy } = await read(database.pool, queue);
    const { rateLimit, active, startedInMinute } = queues.find((each) => each.queue === PROVIDER_API)!;
    const tokens = rateLimit!.availableTokens;
    sums.push({ tokens: tokens + active, started: tokens + startedInMinute, waiting: active + busy.waiting });
  } while (!all);
  await starting;
  expect(sums.length).toBeGreaterThan(2);
  expect(sums).toEqual(sums.map(() => ({ tokens: BURST, started: BURST, waiting: BURST })));
});
