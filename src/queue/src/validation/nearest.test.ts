import { describe, expect, test } from "@jest/globals";
import { nearest } from "./nearest";

describe("nearest", () => {
  const names = ["queue", "concurrencyKey", "priority", "runAt", "delayMs", "maxAttempts", "retryPolicy"];

  test.each([
    ["concurrency_key", "concurrencyKey"],
    ["ConcurrencyKey", "concurrencyKey"],
    ["piority", "priority"],
    ["prioirty", "priority"],
    ["delay", "delayMs"],
    ["max_attempt", "maxAttempts"],
    ["que", "queue"],
  ])("%s was meant to be %s", (word, meant) => {
    expect(nearest(word, names)).toBe(meant);
  });

  test.each(["timeout", "x", "", "constructor"])("%j is near none", (word) => {
    expect(nearest(word, names)).toBeUndefined();
  });
});
