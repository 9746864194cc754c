import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import {
  cancel,
  claim,
  complete,
  completeMany,
  enqueue,
  fail,
  type Held,
  heartbeat,
  jobRow,
  release,
  rows,
  type Started,
  syncCaps,
} from "./support/calls";
import { TestClock } from "./support/clock";
import { errorOf, type Refusal, refusalOf } from "./support/refusal";
import { backendOf, Listener, untilWaiting } from "./support/sessions";

let database: TestDatabase;
let client: Client;
let other: Client;
let listener: Listener;
let clock: TestClock;
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
  other = await database.connect();
  clock = await TestClock.install(client);
  listener = await Listener.start(await database.connect());
});
afterAll(() => database.drop());

let queue: string;
let queues = 0;
beforeEach(async () => {
  queue = `q${queues++}`;
  await listener.taken();
});

const now = () => new Date(Number(clock.nowUs / 1000n));

/** A started job of the test's queue, leased for a minute. */
async function started(more: object = {}): Promise<Started> {
  await enqueue(client, { queue, ...more });
  const { jobs } = await claim(client, queue);
  return jobs[0]!;
}

/** Everything that only the holder of an unexpired lease may do. */
const holdersCalls: [name: string, verb: string, call: (job: Held) => Promise<unknown>][] = [
  ["complete_v1", "complete", (job) => complete(client, job)],
  ["fail_v1", "fail", (job) => fail(client, job)],
  ["release_v1", "release", (job) => release(client, job)],
];

/** Expects all of a lost job's holder's calls to be refused, heartbeat included, and the job to stay as it is. */
async function expectLost(job: Held, why: RegExp): Promise<Refusal[]> {
  const before = await rows(client, "SELECT * FROM workhorse.job WHERE id = $1", [job.id]);
  const refusals: Refusal[] = [];
  for (const [, verb, call] of holdersCalls) {
    const refusal = await refusalOf(call(job));
    expect(refusal).toMatchObject({
      code: "WH004",
      detail: { job_id: job.id, fence_token: job.fence_token, why: expect.stringMatching(why) },
    });
    expect(refusal.message).toContain(`cannot ${verb} job ${job.id}: its lease is lost: `);
    refusals.push(refusal);
  }
  expect(await heartbeat(client, [job])).toEqual([job.id]);
  expect(await rows(client, "SELECT * FROM workhorse.job WHERE id = $1", [job.id])).toEqual(before);
  return refusals;
}

describe("the holder of a lease", () => {
  test("completes the job, with a result", async () => {
    const job = await started();
    await clock.advanceMs(10);
    await complete(client, job, { sent: [1, 2] });
    expect(await jobRow(client, job.id)).toMatchObject({
      state: "completed",
      result: { sent: [1, 2] },
      error: null,
      finished_at: now(),
      attempt: 1,
    });
  });

  test("works up to the last microsecond of the lease, and is refused from its expiry on, recovered or not", async () => {
    for (const [, , call] of holdersCalls) {
      const job = await started();
      await clock.set(job.lease_us - 1n);
      await call(job);
    }
    const job = await started();
    await clock.set(job.lease_us - 1n);
    expect(await heartbeat(client, [job], 1000)).toEqual([]);
    await clock.advanceMs(999);
    expect(await heartbeat(client, [job], 1000)).toEqual([]);
    await clock.advanceMs(1000); // to the microsecond
    const refusals = await expectLost(job, /^the lease expired at /);
    expect(refusals[0]!.detail).toMatchObject({ queue, state: "active" });
    await client.query("SELECT workhorse.recover_expired_v1()");
    await expectLost(job, /^(the lease expired at |it is ready)/);
  });

  test("is refused once the job was started again, also while that start's lease lasts", async () => {
    const job = await started();
    await clock.set(job.lease_us);
    await client.query("SELECT workhorse.recover_expired_v1()");
    const [again] = (await claim(client, queue)).jobs;
    expect(again).toMatchObject({ id: job.id, fence_token: "2", attempt: 2 });
    await expectLost(job, /^it was started again \(fence token 1, now 2\)$/);
    await complete(client, again!);
  });

  test("is refused after the job was cancelled, completed, failed or released", async () => {
    const cancelled = await started();
    expect(await cancel(client, cancelled.id)).toBe("active");
    await expectLost(cancelled, /^it is cancelled$/);
    for (const [, , call] of holdersCalls) {
      const job = await started();
      await call(job);
      await expectLost(job, /^it is (completed|scheduled)$/);
    }
    const givenUp = await started();
    await fail(client, givenUp, { giveUp: true });
    await expectLost(givenUp, /^it is failed$/);
  });

  test("is nobody with another fence token, for a job that never started, or for one that does not exist", async () => {
    const job = await started();
    await expectLost({ ...job, fence_token: "0" }, /fence token 0, now 1/);
    await expectLost({ ...job, fence_token: "2" }, /fence token 2, now 1/);
    await complete(client, job);
    const [waiting] = await enqueue(client, { queue });
    await expectLost({ id: waiting!, fence_token: "0" }, /^it is ready$/);
    await expectLost({ id: "987654321", fence_token: "1" }, /^there is no such job$/);
  });

  test.each(holdersCalls)("of no job (null) is a bad argument of %s", async (_, verb, call) => {
    const job = await started();
    for (const held of [
      { id: null, fence_token: "1" },
      { id: job.id, fence_token: null },
    ]) {
      const refusal = await refusalOf(call(held as unknown as Held));
      expect(refusal.code).toBe("WH002");
      expect(refusal.message).toContain(`invalid call of ${verb}`);
    }
  });

  test("loses to the expiry of its lease while it waits for the row", async () => {
    const job = await started();
    const pid = await backendOf(other);
    for (const call of [complete, fail, release]) {
      await client.query("BEGIN");
      await client.query("SELECT FROM workhorse.job WHERE id = $1 FOR UPDATE", [job.id]);
      const waiting = refusalOf(call(other, job) as Promise<unknown>);
      await untilWaiting(client, [pid]);
      await rows(await database.connect(), "UPDATE public.test_clock SET at = workhorse.from_us($1)", [job.lease_us]);
      await client.query("COMMIT");
      expect((await waiting).code).toBe("WH004");
      await clock.set(clock.nowUs);
    }
    expect((await jobRow(client, job.id)).state).toBe("active");
  });
});

describe("complete_many_v1", () => {
  test("completes what is held, and names the lost", async () => {
    const [held, cancelled, expired, again] = [await started(), await started(), await started(), await started()];
    await cancel(client, cancelled.id);
    await client.query("UPDATE workhorse.job SET lease_expires_at = $2 WHERE id = $1", [expired.id, now()]);
    const jobs = [cancelled, held, { ...again, fence_token: "2" }, expired, { id: "987654321", fence_token: "1" }];
    const lost = await completeMany(client, jobs, ["1", '{"a": 2}', "3", "4", "5"]);
    expect(lost).toEqual([cancelled.id, again.id, expired.id, "987654321"]);
    expect(await jobRow(client, held.id)).toMatchObject({ state: "completed", result: { a: 2 }, finished_at: now() });
    for (const { id } of [again, expired]) {
      expect(await jobRow(client, id)).toMatchObject({ state: "active", result: null, finished_at: null });
    }
    expect(await completeMany(client, [again])).toEqual([]);
    expect(await jobRow(client, again.id)).toMatchObject({ state: "completed", result: null });
  });

  test("tells waiting workers of freed slots, once", async () => {
    await syncCaps(client, queue, [{ queue, maxActive: 2 }]);
    const held = [await started(), await started()];
    await listener.taken();
    await completeMany(client, held);
    expect(await listener.taken()).toEqual([queue]);
    await completeMany(client, held);
    expect(await listener.taken()).toEqual([]);
  });

  test("completes none when a result is no JSON", async () => {
    const held = [await started(), await started()];
    expect(await errorOf(completeMany(client, held, ["1", "x"]))).toMatchObject({ code: "22P02" });
    expect(await jobRow(client, held[0]!.id)).toMatchObject({ state: "active" });
  });

  test("waits for a row that someone else holds, and then goes by the clock", async () => {
    const [first, second] = [await started(), await started()];
    await other.query("BEGIN");
    await other.query("SELECT FROM workhorse.job WHERE id = $1 FOR UPDATE", [second.id]);
    const pid = await backendOf(client);
    const waiting = completeMany(client, [second, first]);
    await untilWaiting(other, [pid]);
    await other.query("UPDATE workhorse.job SET lease_expires_at = $2 WHERE id = $1", [second.id, now()]);
    await other.query("COMMIT");
    expect(await waiting).toEqual([second.id]);
  });

  test.each([
    [["1"], ["1"], ["1", "2"], "1 job ids and 2 results; accepted: as many of each, or null for no results"],
    [
      ["1", null],
      ["1", "1"],
      null,
      "2 job ids and 2 fence tokens; accepted: as many of each, at most 10,000, none null",
    ],
    [null, null, null, "no job ids and no fence tokens; accepted: as many of each, at most 10,000, none null"],
  ])("refuses %j, %j, %j", async (ids, tokens, results, problem) => {
    const call = client.query("SELECT workhorse.complete_many_v1($1, $2, $3)", [ids, tokens, results]);
    expect(await refusalOf(call)).toMatchObject({
      code: "WH002",
      message: `invalid call of complete_many_v1: ${problem}`,
    });
  });
});

describe("heartbeat", () => {
  test("extends leases from now on, and names the lost among those it was asked for", async () => {
    const [kept, lost, gone] = [await started(), await started(), await started()];
    await cancel(client, lost.id);
    await complete(client, gone);
    await clock.advanceMs(30_000);
    const held = [lost, kept, gone, { id: "987654321", fence_token: "1" }];
    const answer = await heartbeat(client, held, 5000);
    expect(answer).toEqual([lost.id, gone.id, "987654321"]);
    expect((await jobRow(client, kept.id)).lease_expires_at).toEqual(new Date(now().getTime() + 5000));
  });

  test("of nothing is nothing", async () => {
    expect(await heartbeat(client, [])).toEqual([]);
  });

  test.each([
    ["more ids than tokens", ["1", "2"], ["1"], "2 job ids and 1 fence tokens"],
    ["a null id", ["1", null], ["1", "1"], "2 job ids and 2 fence tokens"],
    ["a null token", ["1", "2"], ["1", null], "2 job ids and 2 fence tokens"],
    ["no ids", null, ["1"], "no job ids and 1 fence tokens"],
    ["nothing at all", null, null, "no job ids and no fence tokens"],
    ["more than 10,000", Array(10_001).fill("1"), Array(10_001).fill("1"), "10001 job ids and 10001 fence tokens"],
  ])("refuses %s", async (_, ids, tokens, got) => {
    const refusal = await refusalOf(client.query("SELECT workhorse.heartbeat_v1($1, $2, 1000)", [ids, tokens]));
    expect(refusal.code).toBe("WH002");
    expect(refusal.message).toBe(
      `invalid call of heartbeat_v1: ${got}; accepted: as many of each, at most 10,000, none null`,
    );
  });

  test("refuses a lease out of bounds, and no lease", async () => {
    for (const leaseMs of [null, 99, 86_400_001]) {
      const refusal = await refusalOf(client.query("SELECT workhorse.heartbeat_v1('{}', '{}', $1)", [leaseMs]));
      expect(refusal.message).toContain(`lease is ${leaseMs} ms; accepted: 100 to 86,400,000 ms`);
    }
  });
});

describe("cancel", () => {
  test("ends a ready, scheduled or active job, and says which it was", async () => {
    const [ready] = await enqueue(client, { queue });
    const [scheduled] = await enqueue(client, { queue: "elsewhere", delayMs: 1000 });
    expect(await cancel(client, ready!)).toBe("ready");
    expect(await cancel(client, scheduled!)).toBe("scheduled");
    const active = await started();
    expect(await cancel(client, active.id)).toBe("active");
    for (const id of [ready!, scheduled!, active.id]) {
      expect(await jobRow(client, id)).toMatchObject({ state: "cancelled", finished_at: now() });
    }
    expect((await claim(client, queue)).jobs).toEqual([]);
  });

  test("of a finished job, of none, or of null does nothing", async () => {
    const job = await started();
    await complete(client, job);
    expect(await cancel(client, job.id)).toBeNull();
    expect((await jobRow(client, job.id)).state).toBe("completed");
    expect(await cancel(client, "987654321")).toBeNull();
    expect(await cancel(client, null as unknown as string)).toBeNull();
  });
});

describe("release", () => {
  test("gives the job back after 30 s by default, and the start does not count as an attempt", async () => {
    const job = await started();
    await release(client, job);
    expect(await jobRow(client, job.id)).toMatchObject({
      state: "scheduled",
      attempt: 0,
      fence_token: "1",
      run_at: new Date(now().getTime() + 30_000),
    });
    await clock.advanceMs(30_000);
    expect((await claim(client, queue)).jobs).toMatchObject([{ id: job.id, attempt: 1, fence_token: "2" }]);
  });

  test("after a delay of its own, or at once", async () => {
    const later = await started();
    await release(client, later, 1);
    expect(await jobRow(client, later.id)).toMatchObject({ state: "scheduled" });
    const at_once = await started();
    await release(client, at_once, 0);
    expect((await jobRow(client, at_once.id)).state).toBe("ready");
  });

  test("any number of times leaves all attempts", async () => {
    let job = await started({ maxAttempts: 1 });
    for (let i = 0; i < 5; i++) {
      await release(client, job, 0);
      job = (await claim(client, queue)).jobs[0]!;
      expect(job).toMatchObject({ attempt: 1, fence_token: String(i + 2) });
    }
    expect(await fail(client, job)).toEqual({ state: "failed", delayMs: null, rule: "attempts used up" });
  });

  test("refuses a delay out of bounds before anything else", async () => {
    for (const delayMs of [-1, 31_536_000_001, null]) {
      const refusal = await refusalOf(client.query("SELECT workhorse.release_v1(987654321, 1, $1)", [delayMs]));
      expect(refusal.code).toBe("WH002");
      expect(refusal.message).toContain(`delay is ${delayMs} ms; accepted: 0 to 31,536,000,000 ms`);
    }
  });
});

describe("freed capacity is notified with the queue's name:", () => {
  const capped = () => syncCaps(client, queue, [{ queue, maxActive: 1 }]);

  test.each<[string, (job: Started) => Promise<unknown>]>([
    ["complete", (job) => complete(client, job)],
    ["fail for good", (job) => fail(client, job, { giveUp: true })],
    ["fail with attempts left", (job) => fail(client, job, { delayMs: 60_000 })],
    ["release", (job) => release(client, job)],
    ["cancel", (job) => cancel(client, job.id)],
    [
      "recovery of an expired lease",
      async (job) => {
        await clock.set(job.lease_us);
        await client.query("SELECT workhorse.recover_expired_v1()");
      },
    ],
  ])("%s", async (_, end) => {
    await capped();
    const job = await started();
    await listener.taken();
    await end(job);
    expect(await listener.taken()).toContain(queue);
  });

  test("a job that comes back at once is, without a cap too", async () => {
    const job = await started();
    await listener.taken();
    await fail(client, job, { delayMs: 0 });
    expect(await listener.taken()).toEqual([queue]);
  });

  test("not in a transaction that rolls back", async () => {
    await capped();
    const job = await started();
    await listener.taken();
    await client.query("BEGIN");
    await complete(client, job);
    await client.query("ROLLBACK");
    expect(await listener.taken()).toEqual([]);
  });
});

test("all but claims and syncs run under any isolation level", async () => {
  for (const level of ["REPEATABLE READ", "SERIALIZABLE"]) {
    const jobs = [await started(), await started(), await started(), await started()];
    await client.query(`BEGIN ISOLATION LEVEL ${level}`);
    expect(await heartbeat(client, jobs)).toEqual([]);
    await complete(client, jobs[0]!);
    await fail(client, jobs[1]!);
    await release(client, jobs[2]!);
    expect(await cancel(client, jobs[3]!.id)).toBe("active");
    await client.query("COMMIT");
  }
});
