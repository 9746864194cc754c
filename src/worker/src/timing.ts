/** Milliseconds on a clock that never steps; only differences mean something. */
export const monotonicNow = (): number => performance.now();

/** The longest delay that setTimeout takes; it fires at once for a longer one. */
const longestTimer = 2 ** 31 - 1;

/** setTimeout for any delay, also one of months: it may then fire too early, so callers look at the clock again. */
export function startTimer(ms: number, fire: () => void): NodeJS.Timeout {
  return setTimeout(fire, Math.min(Math.max(0, Math.ceil(ms)), longestTimer));
}

/** A delay give or take a tenth, so that many processes do not act in step. */
export function jittered(ms: number): number {
  return ms * (0.9 + Math.random() * 0.2);
}

/** The delay before the n-th try again (n from 1): doubling from 100 ms to 10 s, of which up to half is left to chance. */
export function retryDelay(failures: number): number {
  return Math.min(10_000, 100 * 2 ** Math.min(failures - 1, 10)) * (0.5 + Math.random() / 2);
}

/**
 * Lets one loop sleep until it is woken. A wake-up that comes while the loop is busy is remembered: the next sleep returns at
 * once.
 */
export class Sleeper {
  #woken = false;
  #end: (() => void) | undefined;

  wake(): void {
    if (this.#end === undefined) this.#woken = true;
    else this.#end();
  }

  /** @param ms Infinity: until it is woken. May return early without a cause. */
  sleep(ms: number): Promise<void> {
    if (this.#woken) {
      this.#woken = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const timer = ms === Number.POSITIVE_INFINITY ? undefined : startTimer(ms, () => this.#end?.());
      this.#end = () => {
        clearTimeout(timer);
        this.#end = undefined;
        resolve();
      };
    });
  }
}

/** Resolves with whether the promise settled in time. Neither its value nor its error is looked at. */
export function settlesWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = startTimer(ms, () => resolve(false));
    const settled = (): void => {
      clearTimeout(timer);
      resolve(true);
    };
    promise.then(settled, settled);
  });
}
