import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { anyNumeric, anyText } from "../../../test/arbitraries";
import { decimalOf, numeric } from "../values/decimal";
import { t } from "../values/types";
import { CodecError } from "./errors";
import { decodeJson } from "./json";

describe("the JSON of states", () => {
  test("numbers keep all their digits, texts their characters", () => {
    const type = t.object({ n: t.number, s: t.string, m: t.map(t.number) });
    fc.assert(
      fc.property(anyNumeric, anyText, (n, s) => {
        const text = `{"n": ${decimalOf(n)}, "s": ${JSON.stringify(s)}, "m": {${JSON.stringify(s)}: -1.5e3}}`;
        const value = decodeJson(text, type) as Record<string, unknown>;
        expect(value.n).toEqual(numeric(n));
        expect(value.s).toBe(s);
        expect(value.m).toEqual(new Map([[s, -1500]]));
      }),
    );
  });

  test("missing attributes are null, unknown ones are ignored", () => {
    const value = decodeJson('{"b": 1, "other": {"x": [1]}}', t.object({ a: t.string, b: t.number }));
    expect({ ...(value as object) }).toEqual({ a: null, b: 1 });
  });

  test("a number in a text stays text", () => {
    expect(decodeJson('"12 and \\"34\\" and \\\\"', t.string)).toBe('12 and "34" and \\');
  });

  test.each(['{"a": tru}', "", "[1", '"x'])("refuses %j", (text) => {
    expect(() => decodeJson(text, t.object({ a: t.bool }))).toThrow(CodecError);
  });
  test("refuses another kind, and says where", () => {
    expect(() => decodeJson('{"a": [1, true]}', t.object({ a: t.list(t.number) }))).toThrow(
      "a[1]: expected number, got a bool",
    );
  });
});
