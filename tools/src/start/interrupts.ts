import { constants } from "node:os";

/** npm passes a signal on that the terminal has already sent: so close together, two are one. */
const SAME_MS = 400;

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Being asked to end: by a first signal in good order, by a second one at once. A third one has its usual effect, and the
 * watchdogs of PostgreSQL and Terraform clear up.
 */
export class Interrupts {
  readonly #first = new AbortController();
  readonly #second = new AbortController();
  #received: (typeof SIGNALS)[number] | undefined;
  #at = 0;

  /**
   * @param source What emits the signals. Default: this process.
   * @param now A clock that is never set, in milliseconds.
   */
  constructor(
    private readonly source: Pick<NodeJS.EventEmitter, "on" | "removeListener"> = process,
    private readonly now: () => number = () => performance.now(),
  ) {
    for (const name of SIGNALS) source.on(name, this.#onSignal);
  }

  /** Aborted by the first signal. */
  get signal(): AbortSignal {
    return this.#first.signal;
  }

  /** Aborted by the second one: nothing may take time any more. */
  get hurry(): AbortSignal {
    return this.#second.signal;
  }

  /** The first signal; undefined if there was none. */
  get received(): NodeJS.Signals | undefined {
    return this.#received;
  }

  /** The exit status of a program that such a signal ended; undefined if there was none. */
  get status(): number | undefined {
    return this.#received === undefined ? undefined : 128 + constants.signals[this.#received];
  }

  /** Ends in good order, for another reason than a signal: as if the terminal were gone. */
  request(): void {
    this.#onSignal("SIGHUP");
  }

  dispose(): void {
    for (const name of SIGNALS) this.source.removeListener(name, this.#onSignal);
  }

  readonly #onSignal = (name: (typeof SIGNALS)[number]): void => {
    const now = this.now();
    if (this.#received === undefined) {
      this.#received = name;
      this.#at = now;
      this.#first.abort(new InterruptedError());
    } else if (now - this.#at >= SAME_MS) {
      this.#second.abort(new InterruptedError());
      this.dispose();
    }
  };
}

/** What is thrown out of whatever a signal ended. */
export class InterruptedError extends Error {
  override readonly name = "InterruptedError";
  constructor() {
    super("interrupted");
  }
}
