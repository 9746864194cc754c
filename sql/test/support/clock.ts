import { type Executor, rows } from "./calls";

/** The clock of a test's own database, under the test's control: it stands still until the test moves it. */
export class TestClock {
  private constructor(
    private readonly executor: Executor,
    private us: bigint,
  ) {}

  /** Only the schema's owner can do this, which is what keeps it away from clients. */
  static async install(executor: Executor, startUs = 1_800_000_000_000_000n): Promise<TestClock> {
    await executor.query(`
      CREATE TABLE IF NOT EXISTS public.test_clock (at timestamptz NOT NULL);
      CREATE OR REPLACE FUNCTION workhorse.clock() RETURNS timestamptz LANGUAGE sql VOLATILE
      AS $$ SELECT coalesce((SELECT at FROM public.test_clock), clock_timestamp()) $$;
      TRUNCATE public.test_clock;
      INSERT INTO public.test_clock VALUES ('epoch');`);
    const clock = new TestClock(executor, startUs);
    await clock.set(startUs);
    return clock;
  }

  /** Microseconds since 1970. */
  get nowUs(): bigint {
    return this.us;
  }

  async set(us: bigint): Promise<void> {
    this.us = us;
    await rows(this.executor, "UPDATE public.test_clock SET at = workhorse.from_us($1)", [us]);
  }

  /** By microseconds; negative steps back. */
  advance(us: bigint | number): Promise<void> {
    return this.set(this.us + BigInt(us));
  }

  advanceMs(ms: number): Promise<void> {
    return this.advance(BigInt(ms) * 1000n);
  }
}
