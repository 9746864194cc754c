import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { InvalidArgumentError } from "../errors";
import { refuseArgument } from "../validation";
import { toJsonText } from "./json";

const text = (value: unknown): string => toJsonText(value, "payload", refuseArgument("test"));

function refusal(value: unknown): InvalidArgumentError {
  try {
    text(value);
  } catch (error) {
    if (error instanceof InvalidArgumentError) return error;
    throw error;
  }
  throw new Error("was accepted");
}

describe("toJsonText", () => {
  test("says what JSON says for everything that JSON holds", () => {
    const storable = fc
      .jsonValue({ noUnicodeString: false })
      .filter((value) => !/\\u0000|\\ud[89a-f]/i.test(JSON.stringify(value)));
    fc.assert(fc.property(storable, (value) => expect(text(value)).toBe(JSON.stringify(value))));
  });

  test("takes dates and other values that know their JSON", () => {
    expect(text({ at: new Date(0), own: { toJSON: () => [1] } })).toBe('{"at":"1970-01-01T00:00:00.000Z","own":[1]}');
  });

  test("leaves undefined fields out, as JSON does", () => {
    expect(text({ a: undefined, b: null })).toBe('{"b":null}');
  });

  test("takes the same object twice, but no circle", () => {
    const shared = { a: 1 };
    expect(text([shared, shared])).toBe('[{"a":1},{"a":1}]');
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    expect(refusal(circle)).toMatchObject({ path: "payload", got: "circular" });
  });

  test.each<[unknown, string, string]>([
    [undefined, "payload", "undefined"],
    [() => 1, "payload", "a function"],
    [Symbol("x"), "payload", "a symbol"],
    [1n, "payload", "a bigint"],
    [Number.NaN, "payload", "NaN"],
    [{ a: [1, Number.POSITIVE_INFINITY] }, "payload.a[1]", "Infinity"],
    [[undefined], "payload[0]", "undefined"],
    [{ a: { "b c": () => 1 } }, 'payload.a["b c"]', "a function"],
    [{ a: "x\0y" }, "payload.a", "text with a NUL character or a lone surrogate"],
    ["\ud800", "payload", "text with a NUL character or a lone surrogate"],
    [{ "\0": {} }, 'payload["\\u0000"]', "named with a NUL character or a lone surrogate"],
    [{ m: new Map() }, "payload.m", "an object of class Map, which JSON would empty"],
    [{ n: { toJSON: () => 2n } }, "payload.n", "a bigint"],
  ])("refuses %p at %s", (value, path, got) => {
    expect(refusal(value)).toMatchObject({ path, got, code: "WH002" });
  });

  test("keeps the cause when a value's own toJSON throws", () => {
    const cause = new Error("mine");
    const error = refusal({
      toJSON() {
        throw cause;
      },
    });
    expect(error).toMatchObject({ path: "payload", got: "not serialisable", cause });
  });

  test("shows nothing of the content", () => {
    expect(refusal({ password: "hunter2\0" }).message).not.toContain("hunter2");
  });
});
