import { describe, expect, test } from "@jest/globals";
import type { Evidence, Start } from "./evidence";
import { type Expectation, judge } from "./judge";
import { mostAtOnce } from "./slots";

const S = 1_000_000n;
const rate = (fromUs: bigint, limit: number, burst: number) => ({ fromUs, limit, intervalMs: 60_000, burst });

const expected: Expectation = {
  rateLimit: { queue: "api", rates: [rate(0n, 60, 10), rate(10n * S, 600, 10)], perKey: rate(0n, 5, 2) },
  cap: { queue: "mail", maxActive: 2, maxActivePerKey: 1 },
  busyKey: "acme",
  enqueuedUs: 0n,
};

/** What is as it should be: acme starts its two and waits, others start at the rate; mails two at a time. */
function good(): Start[] {
  const starts: Start[] = [];
  const add = (queue: string, key: string, place: number, startedUs: bigint, ran?: Start["ran"]) =>
    starts.push({
      ...{ job: String(starts.length), queue, key, place: BigInt(place), startedUs, ran },
      ...{ count: 1, state: "completed", worker: `w${starts.length % 3}` },
    });
  add("api", "acme", 1, 0n);
  add("api", "acme", 2, 0n);
  for (let n = 0; n < 8; n += 1) add("api", `early-${n}`, 100 + n, 0n);
  for (let n = 1n; n <= 10n; n += 1n) add("api", `later-${n}`, 200 + Number(n), n * S);
  for (let n = 1n; n <= 50n; n += 1n) add("api", `fast-${n}`, 300 + Number(n), 10n * S + (n * S) / 10n);
  for (let n = 0n; n < 10n; n += 1n) {
    add("mail", "acme", 1 + Number(n), n * S, { fromUs: n * S, toUs: (n + 1n) * S });
    add("mail", `m-${n}`, 100 + Number(n), n * S, { fromUs: n * S, toUs: (n + 1n) * S });
  }
  return starts.sort((a, b) => Number(a.startedUs - b.startedUs));
}

function evidence(starts: Start[], changes: Partial<Evidence> = {}): Evidence {
  return {
    starts,
    counted: new Map([["api", starts.filter(({ queue }) => queue === "api").length]]),
    waiting: new Map([["api", new Map([["acme", [3n, 4n]]])]]),
    readAtUs: 15n * S,
    ...changes,
  };
}

const wrong = (found: Evidence) => judge(found, expected).flatMap(({ ok, text }) => (ok ? [] : [text]));
const like = (start: Partial<Start>): Start => ({ ...good().find(({ queue }) => queue === "api")!, ...start });
const sorted = (starts: Start[]) => starts.sort((a, b) => Number(a.startedUs - b.startedUs));

describe("judge", () => {
  test("finds nothing wrong with what the policies allow", () => {
    const findings = judge(evidence(good()), expected);
    expect(findings.filter(({ ok }) => !ok)).toEqual([]);
    expect(findings.map(({ text }) => text)).toEqual([
      "90 jobs were started by 3 processes, each exactly once",
      "api kept to 60/min +10, then 600/min +10, in every window of time",
      "api kept each of 69 customers to 5/min +2",
      "mail ran 2 at once (allowed: 2), 1 of one customer (allowed: 1)",
      "api: 17 jobs of others overtook those of acme, 2 of which started",
      "mail: 9 jobs of others overtook those of acme",
      "api: 51 starts in 5.0 s since the change; at most 15 before it",
    ]);
  });

  test("one start too many for the queue", () => {
    const starts = sorted([...good(), like({ key: "one-more", startedUs: 5n * S, place: 999n })]);
    expect(wrong(evidence(starts))).toEqual(["api: 16 starts in 5.0 s, allowed are 15"]);
  });

  test("one start too many for a key", () => {
    const starts = good().map((start) => (start.key === "later-3" ? { ...start, key: "acme" } : start));
    expect(wrong(evidence(starts))).toEqual(["api, acme: 3 starts in 3.0 s, allowed are 2.25"]);
  });

  test("a slot too many, of the queue or of a key", () => {
    const mail = { queue: "mail", ran: { fromUs: S / 2n, toUs: 2n * S }, startedUs: 0n, place: 500n };
    expect(wrong(evidence([...good(), like({ ...mail, key: "x" })]))).toEqual([
      "mail ran 3 at once (allowed: 2), 1 of one customer (allowed: 1)",
    ]);
    const twice = good().map((start) => (start.key === "m-1" ? { ...start, key: "acme" } : start));
    expect(wrong(evidence(twice))).toEqual(["mail ran 2 at once (allowed: 2), 2 of one customer (allowed: 1)"]);
  });

  test("a key that holds up the others", () => {
    const own = good().filter(({ queue, key, startedUs }) => queue === "mail" || key === "acme" || startedUs > 10n * S);
    expect(wrong(evidence(own))).toEqual(["api: 0 jobs of others overtook those of acme, 2 of which started"]);
    const inOrder = good().map((start) =>
      start.queue === "mail" && start.key !== "acme" ? { ...start, place: 0n } : start,
    );
    expect(wrong(evidence(inOrder))).toEqual(["mail: 0 jobs of others overtook those of acme"]);
  });

  test("a rate that stays as it was", () => {
    const starts = good().filter(({ queue, startedUs }) => queue === "mail" || startedUs <= 10n * S + S / 2n);
    expect(wrong(evidence(starts))).toEqual(["api: 6 starts in 5.0 s since the change; at most 15 before it"]);
  });

  test("starts that are not all accounted for", () => {
    expect(wrong(evidence(good(), { counted: new Map([["api", 71]]) }))).toEqual([
      "api counts 71 starts, but its jobs tell of 70",
    ]);
    const [first, ...rest] = good();
    expect(wrong(evidence([{ ...first!, count: 2 }, ...rest]))).toEqual([
      "job 0 of api was started 2 times and is completed",
    ]);
    expect(wrong(evidence([{ ...first!, state: "failed" }, ...rest]))).toEqual([
      "job 0 of api was started 1 times and is failed",
    ]);
    const alone = good().map((start) => ({ ...start, worker: "w" }));
    expect(wrong(evidence(alone))).toEqual(["90 jobs were started by 1 processes, each exactly once"]);
  });
});

describe("mostAtOnce", () => {
  const period = (fromUs: bigint, toUs: bigint) => ({ fromUs, toUs });

  test("counts what overlaps, and not what follows", () => {
    expect(mostAtOnce([])).toBe(0);
    expect(mostAtOnce([period(0n, 2n), period(2n, 4n), period(4n, 6n)])).toBe(1);
    expect(mostAtOnce([period(0n, 3n), period(2n, 4n), period(1n, 6n)])).toBe(3);
  });
});
