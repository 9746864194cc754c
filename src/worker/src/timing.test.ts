import { describe, expect, jest, test } from "@jest/globals";
import { jittered, retryDelay, Sleeper, settlesWithin, startTimer } from "./timing";

describe("Sleeper", () => {
  test("a wake-up while awake ends the next sleep at once, and only that", async () => {
    const sleeper = new Sleeper();
    sleeper.wake();
    sleeper.wake();
    await sleeper.sleep(Number.POSITIVE_INFINITY);
    const second = sleeper.sleep(Number.POSITIVE_INFINITY);
    sleeper.wake();
    await second;
  });

  test("sleeps as long as asked, also for longer than a timer can", async () => {
    jest.useFakeTimers();
    try {
      const ends: number[] = [];
      for (const ms of [50, 60 * 86_400_000, 0.2]) {
        void new Sleeper().sleep(ms).then(() => ends.push(ms));
      }
      await jest.advanceTimersByTimeAsync(1);
      expect(ends).toEqual([0.2]);
      await jest.advanceTimersByTimeAsync(48);
      expect(ends).toEqual([0.2]);
      await jest.advanceTimersByTimeAsync(1);
      expect(ends).toEqual([0.2, 50]);
      expect(jest.getTimerCount()).toBe(1); // the months are still to come
      await jest.advanceTimersByTimeAsync(20 * 86_400_000);
      expect(jest.getTimerCount()).toBe(1);
      await jest.advanceTimersByTimeAsync(5 * 86_400_000);
      expect(ends).toHaveLength(3); // early, as documented: the loop looks at the clock again
    } finally {
      jest.useRealTimers();
    }
  });

  test("a wake-up leaves no timer behind", async () => {
    jest.useFakeTimers();
    try {
      const sleeper = new Sleeper();
      const sleep = sleeper.sleep(1_000);
      sleeper.wake();
      await sleep;
      expect(jest.getTimerCount()).toBe(0);
    } finally {
      jest.useRealTimers();
    }
  });
});

test("delays are jittered, and grow to a bound", () => {
  for (let n = 0; n < 100; n++) {
    expect(Math.abs(jittered(1_000) - 1_000)).toBeLessThanOrEqual(100);
    expect(retryDelay(1)).toBeLessThanOrEqual(100);
    expect(retryDelay(1_000)).toBeGreaterThanOrEqual(5_000);
    expect(retryDelay(1_000)).toBeLessThanOrEqual(10_000);
  }
});

test("settlesWithin tells whether it did, for successes and failures", async () => {
  expect(await settlesWithin(Promise.resolve(), 60_000)).toBe(true);
  expect(await settlesWithin(Promise.reject(new Error("x")), 60_000)).toBe(true);
  expect(await settlesWithin(new Promise(() => {}), 1)).toBe(false);
});

test("a timer of a negative delay fires", async () => {
  await new Promise<void>((resolve) => startTimer(Number.NEGATIVE_INFINITY, resolve));
});
