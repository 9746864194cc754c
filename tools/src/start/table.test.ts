import { stripVTControlCharacters } from "node:util";
import { describe, expect, test } from "@jest/globals";
import { createColors } from "picocolors";
import type { QueueReading, Reading } from "./readings";
import { renderLines, renderTable } from "./table";

const perMinute = (limit: number, burst: number) => ({ limit, intervalMs: 60_000, burst });

const depth = {
  ...{ scheduled: 0, ready: 131, active: 3, completed: 22, failed: 0, cancelled: 0, capped: false },
  ...{ oldestReadyAgeMs: 100, reason: null, nextEligibleAt: null, expiredLeases: 0, nextStartMs: null },
  ...{ rateLimit: null, concurrency: null, startedInSecond: 1, startedInMinute: 22 },
};

const api: QueueReading = {
  ...depth,
  queue: "provider-api",
  reason: "tokens",
  nextStartMs: 437,
  rateLimit: {
    ...{ queue: "provider-api", namespace: "billing", rate: perMinute(600, 10), perKey: perMinute(5, 2) },
    ...{ availableTokens: 0, throttledReady: 1000, throttledKeys: 12, nextEligibleAt: null, capped: true },
    ...{ starts: 22, backedOffUntil: null },
  },
};
const mail: QueueReading = {
  ...depth,
  queue: "mail",
  active: 4,
  reason: "slots",
  concurrency: {
    ...{ queue: "mail", namespace: "billing", maxActive: 4, maxActivePerKey: 1 },
    ...{ active: 4, blockedReady: 31, blockedKeys: 9, capped: false },
  },
};
const reading: Reading = {
  queues: [mail, api, { ...depth, queue: "plain", ready: 0 }],
  busy: { started: 3, waiting: 37 },
  others: { started: 19 },
};

describe("the table of queues", () => {
  test("on a terminal of 80 columns", () => {
    const lines = renderTable(reading, 80, createColors(false));
    expect(`\n${lines.join("\n")}\n`).toBe(`
queue         limit        tokens   started  throttled   next  active  blocked
              + burst              1 s/60 s             start
mail          4 at once         -      1/22          -   slot     4/4       31
provider-api  600/min +10    0/10      1/22      1,000  0.4 s       3        -
plain         -                 -      1/22          -      -       3        -

provider-api: in 60 s 3 of acme (37 more wait), 19 of other customers
`);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(80);
  });

  test("on a wide one, with the limits per customer; in colour, the same text", () => {
    const lines = renderTable(reading, 140, createColors(false));
    expect(lines[0]).toMatch(/limit +per customer +tokens +started +throttled +customers +next/);
    expect(lines[3]).toMatch(/^provider-api +600\/min \+10 +5\/min \+2 +0\/10 +1\/22 +1,000 +12 +0\.4 s +3 +-$/);
    const colored = renderTable(reading, 140, createColors(true));
    expect(colored.map((line) => stripVTControlCharacters(line).trimEnd())).toEqual(lines);
    expect(colored.join("\n")).toContain("\x1b[");
  });

  test("as plain lines", () => {
    expect(renderLines(reading)).toEqual([
      "mail, 4 at once: started 1 in 1 s, 22 in 60 s, next start slot, active 4/4, blocked 31",
      "provider-api, 600/min +10: started 1 in 1 s, 22 in 60 s, tokens 0/10, throttled 1,000, next start 0.4 s, active 3",
      "plain, -: started 1 in 1 s, 22 in 60 s, next start -, active 3",
    ]);
  });
});
