import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import type { Client } from "pg";
import { type TestDatabase, testDatabase } from "../../test/support/database";
import { rows } from "./support/calls";
import { capKind, kinds, rateLimitKind } from "./support/kinds";
import { refusalOf } from "./support/refusal";

let database: TestDatabase;
let client: Client;
beforeAll(async () => {
  database = await testDatabase();
  client = await database.connect();
});
afterAll(() => database.drop());

const rate = { limit: 5, intervalMs: 1000, burst: 5 };

/** What is no integer in bounds, with how an error shows it. */
const noIntegers: [value: unknown, shown: string][] = [
  [0, "0"],
  [-1, "-1"],
  [1.5, "1.5"],
  [1e10, "10000000000"],
  [null, "null"],
  ["5", '"5"'],
  [true, "true"],
  [[5], "[5]"],
  [{}, "{}"],
  [undefined, "missing"],
];

/** Each: the definition, and what the problem must say. */
const rateLimitProblems: [definition: unknown, problem: RegExp][] = [
  ...["limit", "intervalMs", "burst"].flatMap((field) =>
    ["rate", "perKey"].flatMap((axis) =>
      noIntegers.map(([value, shown]): [unknown, RegExp] => [
        { queue: "q", rate, perKey: rate, [axis]: { ...rate, [field]: value } },
        new RegExp(`^${axis}\\.${field} is ${escaped(shown)}; accepted: an integer from 1 to [0-9,]+$`),
      ]),
    ),
  ),
  [
    { queue: "q", rate: { ...rate, limit: 1e7 } },
    /^rate\.limit is 10000000; accepted: an integer from 1 to 1,000,000$/,
  ],
  [
    { queue: "q", rate: { ...rate, intervalMs: 86_400_001 } },
    /^rate\.intervalMs is 86400001; .* from 1 to 86,400,000$/,
  ],
  [{ queue: "q", rate: { ...rate, max: 5 } }, /^rate\.max is not a known field; accepted: limit, intervalMs, burst$/],
  [{ queue: "q", rate, perKey: { ...rate, Burst: 5 } }, /^perKey\.Burst is not a known field/],
  [{ queue: "q", rate, perkey: rate }, /^perkey is not a known field; accepted: queue, rate, perKey$/],
  [{ queue: "q", rate, namespace: "n" }, /^namespace is not a known field/],
  [{ queue: "q" }, /^rate is missing; accepted: \{"limit"/],
  [{ queue: "q", rate: null }, /^rate is null; accepted: \{"limit"/],
  [{ queue: "q", rate: 5 }, /^rate is 5; /],
  [{ queue: "q", rate: [rate] }, /^rate is \[\{.*\}\]; /],
  [{ queue: "q", rate: "x".repeat(100) }, /^rate is "x{56}\.\.\.; /],
  [{ queue: "q", rate, perKey: 5 }, /^perKey is 5; /],
  [{ queue: "q", rate, perKey: "none" }, /^perKey is "none"; /],
  [{ queue: "q", rate, perKey: false }, /^perKey is false; /],
];
const capProblems: [definition: unknown, problem: RegExp][] = [
  ...["maxActive", "maxActivePerKey"].flatMap((field) =>
    noIntegers
      .filter(([value]) => field === "maxActive" || (value !== null && value !== undefined))
      .map(([value, shown]): [unknown, RegExp] => [
        { queue: "q", maxActive: 5, maxActivePerKey: 5, [field]: value },
        new RegExp(`^${field} is ${escaped(shown)}; accepted: an integer from 1 to 1,000,000$`),
      ]),
  ),
  [{ queue: "q", maxActive: 1e7 }, /^maxActive is 10000000; accepted: an integer from 1 to 1,000,000$/],
  [
    { queue: "q", maxActive: 5, maxActivePerKey: 6 },
    /^maxActivePerKey is 6, above maxActive, which is 5; accepted: 1 to maxActive$/,
  ],
  [
    { queue: "q", maxActive: 5, max_active_per_key: 1 },
    /^max_active_per_key is not a known field; accepted: queue, maxActive, maxActivePerKey$/,
  ],
  [{ queue: "q", maxActive: 5, rate }, /^rate is not a known field/],
];
/** Of the queue and the definition as a whole; the same for both kinds. */
const commonProblems: [change: Record<string, unknown>, problem: RegExp][] = [
  [{ queue: "" }, /^queue has 0 bytes; accepted: 1 to 256 bytes$/],
  [{ queue: "é".repeat(129) }, /^queue has 258 bytes; accepted: 1 to 256 bytes$/],
  [{ queue: `${"x".repeat(256)}y` }, /^queue has 257 bytes/],
  [{ queue: null }, /^queue is null; accepted: a string of 1 to 256 bytes$/],
  [{ queue: 7 }, /^queue is 7; accepted: a string/],
  [{ queue: ["q"] }, /^queue is \["q"\]; /],
  [{ queue: undefined }, /^queue is missing; /],
];

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

describe.each([
  { ...rateLimitKind, problems: rateLimitProblems },
  { ...capKind, problems: capProblems },
])("a definition of a $name policy is refused, with what was got, what is accepted and where:", (kind) => {
  const { define, sync, table, problems } = kind;
  const common = commonProblems.map(([change, problem]): [unknown, RegExp] => [{ ...define("q"), ...change }, problem]);
  const whole = [null, 5, "q", [], [1]].map((value): [unknown, RegExp] => [
    value,
    new RegExp(`^the definition is ${escaped(JSON.stringify(value))}; accepted: \\{"queue"`),
  ]);
  const cases = [...problems, ...common, ...whole].map(([definition, problem]) => ({
    definition,
    problem,
    shown: JSON.stringify(definition).slice(0, 100),
  }));

  test.each(cases)("$shown", async ({ definition, problem }) => {
    const refusal = await refusalOf(sync(client, "team", [define("fine"), definition, define("never looked at")]));
    expect(refusal.code).toBe("WH002");
    expect(refusal.detail.problem).toMatch(problem);
    expect(refusal.message).toContain(refusal.detail.problem);
    expect(refusal.message).toContain('namespace "team" (definition 2)');
    const given = (definition as { queue?: unknown } | null)?.queue;
    const queue = typeof given === "string" ? given : null;
    expect(refusal.detail).toMatchObject({ namespace: "team", queue, index: 1 });
    if (queue) expect(refusal.message).toContain(`for queue "${queue.slice(0, 100)}`);
    expect(refusal.hint).toBe("Nothing was written. Correct the definition and sync again.");
    expect(await rows(client, `SELECT FROM ${table}`)).toEqual([]);
  });
});

describe.each(kinds)("a call of sync for $name policies is refused:", ({ name, sync, define, table }) => {
  test.each<[namespace: string | null, definitions: unknown, prune: boolean | null, problem: string]>([
    [null, [], true, "namespace is null; accepted: 1 to 256 bytes"],
    ["", [], true, "namespace has 0 bytes; accepted: 1 to 256 bytes"],
    ["é".repeat(129), [], true, "namespace has 258 bytes; accepted: 1 to 256 bytes"],
    ["n", undefined, true, "definitions is missing; accepted: an array of at most 10,000 definitions"],
    ["n", null, true, "definitions is null; accepted: an array of at most 10,000 definitions"],
    ["n", {}, true, "definitions is {}; accepted: an array of at most 10,000 definitions"],
    ["n", "[]", true, 'definitions is "[]"; accepted: an array of at most 10,000 definitions'],
    ["n", [], null, "prune is null; accepted: true or false"],
  ])("%j, %j, %j", async (namespace, definitions, prune, problem) => {
    const refusal = await refusalOf(sync(client, namespace, definitions, prune));
    expect(refusal).toMatchObject({
      code: "WH002",
      message: `invalid call of sync for ${name} policies: ${problem}`,
      hint: "Nothing was written. Correct the argument and sync again.",
      detail: { problem, namespace },
    });
  });

  test("more than 10,000 definitions", async () => {
    const definitions = Array.from({ length: 10_001 }, (_, i) => define(`q${i}`));
    const refusal = await refusalOf(sync(client, "n", definitions));
    expect(refusal.detail.problem).toBe("definitions has 10001 elements; accepted: at most 10,000");
    expect(await rows(client, `SELECT FROM ${table}`)).toEqual([]);
  });

  test("a queue that is there twice, also with the same definition", async () => {
    const refusal = await refusalOf(sync(client, "n", [define("a"), define("q ä"), define("b"), define("q ä")]));
    expect(refusal).toMatchObject({ code: "WH002", detail: { namespace: "n", queue: "q ä", index: 3 } });
    expect(refusal.message).toContain(`queue "q ä" is defined twice (definitions 2 and 4)`);
    expect(await rows(client, `SELECT FROM ${table}`)).toEqual([]);
  });

  test("the first bad definition is the one that is named", async () => {
    const refusal = await refusalOf(sync(client, "n", [define("a"), define("b", 0), define("c", -1)]));
    expect(refusal.detail).toMatchObject({ queue: "b", index: 1 });
  });
});

test("numbers written as 5.0 or 5e0 are the integers they are", async () => {
  const text = `[{"queue": "q", "rate": {"limit": 5.0, "intervalMs": 1e3, "burst": 50e-1}, "perKey": null}]`;
  const returned = await rows(client, "SELECT * FROM workhorse.sync_rate_limit_policies_v1('n', $1)", [text]);
  expect(returned).toMatchObject([{ rate_limit: 5, rate_interval_ms: 1000, rate_burst: 5 }]);
  const caps = `[{"queue": "q", "maxActive": 7.0, "maxActivePerKey": 2e0}]`;
  expect(await rows(client, "SELECT * FROM workhorse.sync_concurrency_policies_v1('n', $1)", [caps])).toMatchObject([
    { max_active: 7, max_active_per_key: 2 },
  ]);
});
