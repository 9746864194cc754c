import { describe, expect, test } from "@jest/globals";
import {
  attribute,
  between,
  type ConfigOf,
  Decimal,
  defineSchema,
  elements,
  formatPath,
  keys,
  oneOf,
  type PlannedOf,
  requiresReplace,
  type StateOf,
  size,
  t,
  type Unknown,
  unknown,
  useStateForUnknown,
  utf8Bytes,
} from "..";
import type { ObjectValue, Value } from "../values/types";
import { planSchema } from "./plan";
import { validateConfig } from "./validate";

const schema = defineSchema({
  description: "Everything a schema can say.",
  attributes: {
    id: attribute.string({ computed: true, description: "", planModifiers: [useStateForUnknown()] }),
    name: attribute.string({
      required: true,
      description: "",
      validators: [utf8Bytes(1, 4)],
      planModifiers: [requiresReplace()],
    }),
    mode: attribute.string({ default: "fast", description: "", validators: [oneOf("fast", "slow")] }),
    secret: attribute.string({ optional: true, sensitive: true, description: "", validators: [utf8Bytes(8, 16)] }),
    old: attribute.bool({ optional: true, deprecated: "Use mode.", description: "" }),
    tags: attribute.of(t.set(t.string), {
      optional: true,
      description: "",
      validators: [size(0, 2), elements(utf8Bytes(1, 3), (item): item is string => typeof item === "string")],
    }),
    limits: attribute.map(
      {
        max: attribute.integer({ required: true, description: "", validators: [between(1, 10)] }),
        burst: attribute.integer({ default: 1, description: "" }),
        seen: attribute.integer({ computed: true, description: "" }),
      },
      { optional: true, description: "", validators: [keys(utf8Bytes(1, 5))] },
    ),
  },
});

const config = (fields: Record<string, Value>): ObjectValue => ({
  id: null,
  name: "n",
  mode: null,
  secret: null,
  old: null,
  tags: null,
  limits: null,
  ...fields,
});

// The types that a resource's author sees: a mistake here fails the type check, not the run.
type Same<A, B> = (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? true : false;
const same = <A, B>(_: Same<A, B>) => {};
same<StateOf<typeof schema>["mode"], string>(true);
same<StateOf<typeof schema>["id"], string | null>(true);
same<ConfigOf<typeof schema>["mode"], string | null | Unknown>(true);
same<ConfigOf<typeof schema>["name"], string | Unknown>(true);
same<PlannedOf<typeof schema>["name"], string>(true);
same<PlannedOf<typeof schema>["id"], string | null | Unknown>(true);
same<
  StateOf<typeof schema>["limits"],
  ReadonlyMap<string, { readonly max: number; readonly burst: number; readonly seen: number | null }> | null
>(true);

describe("validation", () => {
  const found = (fields: Record<string, Value>) =>
    validateConfig(schema, config(fields)).map(({ severity, summary, detail, path }) => ({
      severity,
      at: path === undefined ? "" : formatPath(path),
      text: `${summary}. ${detail}`,
    }));

  test("accepts what is right, and what is not yet known", () => {
    expect(found({ limits: new Map([["a", { max: 10, burst: null, seen: null }]]), tags: ["a", "b"] })).toEqual([]);
    expect(found({ name: unknown, tags: unknown, limits: new Map<string, Value>([["a", unknown]]) })).toEqual([]);
    expect(
      found({ tags: [unknown, "a"], limits: new Map([["a", { max: unknown, burst: null, seen: null }]]) }),
    ).toEqual([]);
  });

  test.each<[string, Record<string, Value>, string, RegExp]>([
    ["a missing one", { name: null }, "name", /Got null, but name is required/],
    ["a text too long", { name: "12345" }, "name", /Got "12345"; accepted is 1 to 4 bytes/],
    ["bytes, not characters", { name: "éé€" }, "name", /accepted is 1 to 4 bytes/],
    ["another word", { mode: "x" }, "mode", /accepted is one of "fast", "slow"/],
    [
      "a fraction",
      { limits: new Map([["a", { max: 1.5, burst: null }]]) },
      'limits["a"].max',
      /Got 1.5; accepted is a whole/,
    ],
    [
      "a huge number",
      { limits: new Map([["a", { max: Decimal.parse("1e30"), burst: null }]]) },
      'limits["a"].max',
      /whole number/,
    ],
    [
      "out of bounds",
      { limits: new Map([["a b", { max: 0, burst: null }]]) },
      'limits["a b"].max',
      /Got 0; accepted is a whole number from 1 to 10/,
    ],
    ["a key", { limits: new Map([["toolong", { max: 1, burst: null }]]) }, "limits", /keys are 1 to 5 bytes/],
    ["a null element", { tags: [null] }, "tags[0]", /Got null/],
    ["a null object", { limits: new Map([["a", null]]) }, 'limits["a"]', /Got null/],
    ["too many", { tags: ["a", "b", "c"] }, "tags", /Got a list of 3 elements; accepted is 0 to 2/],
    ["an element", { tags: ["long"] }, "tags", /elements that are 1 to 3 bytes/],
  ])("refuses %s, and says where", (_name, fields, at, text) => {
    expect(found(fields)).toEqual([{ severity: "error", at, text: expect.stringMatching(text) }]);
  });

  test("never quotes a sensitive value", () => {
    const [refusal] = found({ secret: "hunter2" });
    expect(refusal?.text).toMatch(/Got a sensitive value; accepted is 8 to 16 bytes/);
    expect(JSON.stringify(refusal)).not.toContain("hunter2");
  });

  test("warns of a deprecated attribute", () => {
    expect(found({ old: true })).toEqual([
      { severity: "warning", at: "old", text: "Deprecated attribute: old. Use mode." },
    ]);
  });
});

describe("planning", () => {
  const state = config({
    id: "1",
    mode: "fast",
    limits: new Map([["a", { max: 1, burst: 1, seen: 7 }]]),
  });
  const limits = (fields: Record<string, Value>) => new Map([["a", { max: 1, burst: null, seen: null, ...fields }]]);
  const plain = (value: unknown): unknown =>
    value instanceof Map
      ? Object.fromEntries([...value].map(([k, v]) => [k, plain(v)]))
      : typeof value === "object" && value !== null && !Array.isArray(value) && value !== unknown
        ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)]))
        : value;

  test("a create has defaults, and unknown where the provider computes", () => {
    const written = config({ limits: limits({}) });
    const { planned, requiresReplace } = planSchema(schema, written, null, written);
    expect(plain(planned)).toEqual({
      ...config({ id: unknown, mode: "fast" }),
      limits: { a: { max: 1, burst: 1, seen: unknown } },
    });
    expect(requiresReplace).toEqual([]);
  });

  test("no change plans none: what the provider computed stays", () => {
    const proposed = { ...state, mode: null, limits: limits({ seen: 7 }) };
    const { planned } = planSchema(schema, config({ limits: limits({}) }), state, proposed);
    expect(plain(planned)).toEqual(plain(state));
  });

  test("a change makes computed ones unknown, except those that keep their state", () => {
    const written = config({ limits: limits({ max: 2 }) });
    const { planned } = planSchema(schema, written, state, { ...state, limits: limits({ max: 2, seen: 7 }) });
    expect(plain(planned)).toMatchObject({ id: "1", mode: "fast", limits: { a: { max: 2, burst: 1, seen: unknown } } });
  });

  test("says which changes replace the resource", () => {
    const written = config({ name: "m" });
    const plan = planSchema(schema, written, state, { ...state, name: "m" });
    expect(plan.requiresReplace.map(formatPath)).toEqual(["name"]);
    expect(planSchema(schema, config({}), state, state).requiresReplace).toEqual([]);
  });
});

describe("declaring", () => {
  test.each([
    ["contradictory presence", () => attribute.string({ required: true, computed: true, description: "x" })],
    ["no presence", () => attribute.string({ description: "x" })],
    ["a computed write-only", () => attribute.string({ computed: true, writeOnly: true, description: "x" })],
    [
      "a bad name",
      () =>
        defineSchema({
          description: "",
          attributes: { "Bad-Name": attribute.bool({ optional: true, description: "" }) },
        }),
    ],
    [
      "computed inside a set",
      () =>
        defineSchema({
          description: "",
          attributes: {
            s: attribute.set(
              { c: attribute.bool({ computed: true, description: "" }) },
              { optional: true, description: "" },
            ),
          },
        }),
    ],
  ])("refuses %s", (_name, declare) => {
    expect(declare).toThrow(TypeError);
  });
});
