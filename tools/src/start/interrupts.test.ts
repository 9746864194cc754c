import { EventEmitter } from "node:events";
import { describe, expect, test } from "@jest/globals";
import { InterruptedError, Interrupts } from "./interrupts";

describe("Interrupts", () => {
  const source = new EventEmitter();
  let now = 1_000;
  const make = () => new Interrupts(source, () => now);

  test("the first signal ends, the second hurries, the third has its usual effect", () => {
    const interrupts = make();
    const state = () => [interrupts.signal.aborted, interrupts.hurry.aborted, interrupts.status];
    expect(state()).toEqual([false, false, undefined]);
    source.emit("SIGINT", "SIGINT");
    expect(state()).toEqual([true, false, 130]);
    expect(interrupts.signal.reason).toBeInstanceOf(InterruptedError);
    now += 100; // npm passes on what the terminal has sent already
    source.emit("SIGINT", "SIGINT");
    expect(state()).toEqual([true, false, 130]);
    now += 400;
    source.emit("SIGTERM", "SIGTERM");
    expect(state()).toEqual([true, true, 130]);
    expect(source.listenerCount("SIGINT")).toBe(0);
  });

  test("leaves the signals alone once it is disposed of", () => {
    const interrupts = make();
    interrupts.dispose();
    expect(source.eventNames()).toEqual([]);
    source.emit("SIGTERM", "SIGTERM");
    expect(interrupts.status).toBeUndefined();
  });

  test("can be asked to end for another reason", () => {
    const interrupts = make();
    interrupts.request();
    expect([interrupts.signal.aborted, interrupts.status]).toEqual([true, 129]);
    interrupts.dispose();
  });
});
