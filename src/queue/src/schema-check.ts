import { installedVersion, requireVersion, SchemaError } from "@workhorse/sql";
import { translateError } from "./errors";
import type { Executor } from "./executor";

/**
 * Checks the version of the installed schema once. Calls that come while a check is under way share it; one that failed is
 * not remembered, so that a program may come up before its schema.
 */
export class SchemaCheck {
  #passed = false;
  #pending: { readonly executor: Executor; readonly outcome: Promise<void> } | undefined;

  /** @throws SchemaError `missing` or `incompatible`; the driver's error when the database cannot be asked. */
  async ensure(executor: Executor): Promise<void> {
    while (!this.#passed) {
      const pending = this.#pending;
      if (pending === undefined) return this.#start(executor);
      try {
        await pending.outcome;
      } catch (error) {
        // Another caller's connection or transaction may be broken where this one is not.
        if (error instanceof SchemaError || pending.executor === executor) throw error;
      }
    }
  }

  #start(executor: Executor): Promise<void> {
    const outcome = check(executor).then(
      () => {
        this.#passed = true;
        this.#pending = undefined;
      },
      (error: unknown) => {
        this.#pending = undefined;
        throw error;
      },
    );
    this.#pending = { executor, outcome };
    return outcome;
  }
}

async function check(executor: Executor): Promise<void> {
  let found: number | null;
  try {
    found = await installedVersion(executor);
  } catch (error) {
    throw translateError(error, "argument");
  }
  requireVersion(found);
}
