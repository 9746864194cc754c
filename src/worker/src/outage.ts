import type { Logger } from "./logger";
import { monotonicNow } from "./timing";

/** One thing that may stop working for a while. It is said once when it does, once per kind of error, and once when it works again. */
export class Outage {
  #since: number | undefined;
  #kind: string | undefined;
  #failures = 0;

  /** @param what what fails, as the beginning of a sentence: "claims". */
  constructor(
    private readonly what: string,
    private readonly logger: Logger,
  ) {}

  /** Failures since it last worked. */
  get failures(): number {
    return this.#failures;
  }

  failed(error: unknown, fields: Readonly<Record<string, unknown>> = {}): void {
    this.#since ??= monotonicNow();
    this.#failures++;
    const kind = kindOf(error);
    if (kind === this.#kind) return;
    this.#kind = kind;
    this.logger.error(`${this.what} fail; trying again until they work`, { ...fields, error });
  }

  succeeded(): void {
    if (this.#since === undefined) return;
    const seconds = Math.round((monotonicNow() - this.#since) / 100) / 10;
    this.logger.warn(`${this.what} work again`, { afterSeconds: seconds, failures: this.#failures });
    this.#since = undefined;
    this.#kind = undefined;
    this.#failures = 0;
  }
}

function kindOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  return String((error as { code?: unknown }).code ?? error.message);
}
