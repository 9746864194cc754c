import { afterAll, beforeAll, expect, test } from "@jest/globals";
import fc from "fast-check";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../../test/support/database";
import { controlClock, Replay } from "./replay";
import { history } from "./steps";

let database: TestDatabase;
let client: Client;
let other: Client;
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
  other = await database.connect();
  await controlClock(client);
});
afterAll(() => database.drop());

const runs = Number(process.env.WORKHORSE_MODEL_RUNS ?? 300);

test(`a claim starts exactly what the reference starts, in ${runs} random histories of policies, jobs and clock readings`, async () => {
  let number = 0;
  await fc.assert(
    fc.asyncProperty(history, async (steps) => {
      number += 1;
      await new Replay(client, other, `q${number}`).run(steps);
    }),
    { numRuns: runs, ...(process.env.WORKHORSE_MODEL_SEED ? { seed: Number(process.env.WORKHORSE_MODEL_SEED) } : {}) },
  );
  expect(number).toBeGreaterThanOrEqual(runs);
}, 600_000);
