import type { Queue } from "@workhorse/queue";
import type { Pool } from "pg";
import { pause } from "./load";
import { read } from "./readings";
import type { Screen } from "./screen";
import { renderLines, renderTable } from "./table";

/** On a terminal, the table is redrawn so often; elsewhere the lines come so seldom. */
const REDRAW_MS = 500;
const LINES_MS = 3_000;

/** Reads the queues again and again, and shows them. */
export class Monitor {
  readonly #end = new AbortController();
  readonly #began = performance.now();
  #running: Promise<void> = Promise.resolve();

  constructor(
    private readonly pool: Pool,
    private readonly queue: Queue,
    private readonly screen: Screen,
  ) {}

  /** Shows them until `stop`; rejects when they cannot be read. */
  run(): Promise<void> {
    this.#running = this.#loop();
    return this.#running;
  }

  /**
   * Lets time pass.
   *
   * @param ms How much; undefined is without end.
   * @throws The signal's reason, or what `failure` rejects with.
   */
  async watch(ms: number | undefined, signal: AbortSignal, failure: Promise<never>): Promise<void> {
    const over = new AbortController();
    const end = AbortSignal.any([signal, over.signal]);
    try {
      await Promise.race([pause(ms ?? 2 ** 31 - 1, end), failure]);
    } finally {
      over.abort();
    }
    signal.throwIfAborted();
  }

  async stop(): Promise<void> {
    this.#end.abort();
    await this.#running;
  }

  async #loop(): Promise<void> {
    const { interactive, colors } = this.screen;
    while (!this.#end.signal.aborted) {
      const reading = await read(this.pool, this.queue);
      if (this.#end.signal.aborted) break;
      if (interactive) {
        this.screen.table(renderTable(reading, this.screen.columns, colors));
      } else {
        const time = `${((performance.now() - this.#began) / 1000).toFixed(0).padStart(4)} s`;
        for (const line of renderLines(reading)) this.screen.print(`${time}  ${line}`);
      }
      await pause(interactive ? REDRAW_MS : LINES_MS, this.#end.signal);
    }
  }
}
