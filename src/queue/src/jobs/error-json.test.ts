import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { toErrorJson } from "./error-json";

describe("toErrorJson", () => {
  test("keeps name, message, stack, code and causes", () => {
    const error = Object.assign(new TypeError("outer", { cause: new Error("inner", { cause: "text" }) }), {
      code: "E1",
    });
    expect(toErrorJson(error)).toEqual({
      name: "TypeError",
      message: "outer",
      code: "E1",
      stack: error.stack,
      cause: {
        name: "Error",
        message: "inner",
        stack: expect.any(String),
        cause: { name: "NotAnError", message: "text" },
      },
    });
  });

  test("keeps the errors of an AggregateError", () => {
    expect(toErrorJson(new AggregateError([new Error("a"), 2], "both"))).toMatchObject({
      name: "AggregateError",
      errors: [{ message: "a" }, { message: "2" }],
    });
  });

  test.each([
    [undefined, "undefined"],
    [null, "null"],
    [{ a: { b: { c: { d: 1 } } } }, "{ a: { b: { c: [Object] } } }"],
    ["plain", "plain"],
    [Symbol("s"), "Symbol(s)"],
  ])("describes a thrown %p", (thrown, message) => {
    expect(toErrorJson(thrown)).toEqual({ name: "NotAnError", message });
  });

  test("survives values that cannot be read", () => {
    const hostile = new Error("x");
    Object.defineProperty(hostile, "message", {
      get() {
        throw new Error("no");
      },
    });
    const proxy = new Proxy(
      {},
      {
        getPrototypeOf() {
          throw new Error("no");
        },
      },
    );
    for (const thrown of [hostile, proxy]) {
      expect(toErrorJson(thrown)).toEqual({ name: "Error", message: "a value was thrown that cannot be read" });
    }
  });

  test("is bounded, also for errors that cause themselves", () => {
    const error = new Error("x".repeat(1_000_000));
    error.stack = "y".repeat(1_000_000);
    error.cause = error;
    const text = JSON.stringify(toErrorJson(error));
    expect(text.length).toBeLessThan(100_000);
    expect(text).toContain("more characters)");
  });

  test("is something that jsonb can hold, whatever was thrown", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary", minLength: 4_000, maxLength: 5_000 }),
        fc.anything(),
        (message, thrown) => {
          for (const value of [
            thrown,
            new Error(message),
            Object.assign(new Error(), { code: thrown, cause: thrown }),
          ]) {
            const text = JSON.stringify(toErrorJson(value));
            expect(text).not.toMatch(/\\u0000|\\ud[89a-f]/i);
          }
        },
      ),
    );
  });
});
