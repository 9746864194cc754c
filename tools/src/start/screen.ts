import { stripVTControlCharacters } from "node:util";
import { createColors } from "picocolors";

const FRAME_MS = 100;
const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const DEFAULT_COLUMNS = 80;
const DEFAULT_ROWS = 24;

/** What a screen writes to: standard output, or a test's. */
export interface Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): unknown;
}

/**
 * Text that scrolls, and below it, on a terminal, a region that is redrawn in place: a table, and the step that is being
 * done. Elsewhere there is only the text.
 */
export class Screen {
  /** Whether there is a terminal to redraw on. */
  readonly interactive: boolean;
  /** Whether to use colours: on a terminal, unless NO_COLOR is set; elsewhere if FORCE_COLOR is. */
  readonly colorful: boolean;
  readonly colors: ReturnType<typeof createColors>;
  #table: readonly string[] = [];
  #step = "";
  #drawn = 0;

  constructor(
    private readonly output: Output,
    env: Readonly<Record<string, string | undefined>>,
  ) {
    this.interactive = output.isTTY === true && env.TERM !== "dumb";
    this.colorful = !env.NO_COLOR && (this.interactive || Boolean(env.FORCE_COLOR));
    this.colors = createColors(this.colorful);
  }

  get columns(): number {
    return this.output.columns ?? DEFAULT_COLUMNS;
  }

  /** Writes lines above what is redrawn. */
  print(text = ""): void {
    this.#redraw(`${text}\n`);
  }

  /** Takes text in pieces, as a program's output comes, and prints it line by line; call `end` for the rest. */
  stream(): { write(text: string): void; end(): void } {
    let rest = "";
    return {
      write: (text) => {
        const lines = (rest + text).split("\n");
        rest = lines.pop()!;
        if (lines.length > 0) this.print(lines.join("\n"));
      },
      end: () => {
        if (rest !== "") this.print(rest);
        rest = "";
      },
    };
  }

  /** Replaces the table that is redrawn in place. */
  table(lines: readonly string[]): void {
    this.#table = lines;
    this.#redraw("");
  }

  /** Takes the table away; with `keep` it stays as text. */
  endTable({ keep }: { readonly keep: boolean }): void {
    const lines = this.interactive ? this.#table : [];
    this.#table = [];
    this.#redraw(keep && lines.length > 0 ? `${lines.join("\n")}\n` : "");
  }

  /** Does something that takes its time: says what, how long so far, and how long it took. */
  async step<T>(title: string, work: () => Promise<T>): Promise<T> {
    if (!this.interactive) this.output.write(`${title} ... `);
    return this.#timed(title, work, (end) => (this.interactive ? `${title} ... ${end}` : end));
  }

  /** The same for something that writes text meanwhile: the title stands above it, the time below. */
  async section<T>(title: string, work: () => Promise<T>): Promise<T> {
    this.print(`\n${this.colors.bold(title)}\n`);
    return this.#timed(title, work, (end) => this.colors.dim(`${title} ... ${end}`));
  }

  /** @param ending Makes the line that stays, from how it ended: the time it took, or "failed". */
  async #timed<T>(title: string, work: () => Promise<T>, ending: (end: string) => string): Promise<T> {
    const began = performance.now();
    const seconds = (digits: number) => `${((performance.now() - began) / 1000).toFixed(digits)} s`;
    let frame = 0;
    const draw = () => {
      this.#step = `${this.colors.cyan(FRAMES[frame++ % FRAMES.length]!)} ${title} ... ${seconds(0)}`;
      this.#redraw("");
    };
    const timer = this.interactive ? setInterval(draw, FRAME_MS) : undefined;
    if (this.interactive) draw();
    let end = "failed";
    try {
      const result = await work();
      end = seconds(1);
      return result;
    } finally {
      clearInterval(timer);
      this.#step = "";
      this.#redraw(`${ending(end)}\n`);
    }
  }

  /** One write for all, so that nothing flickers: up to the region's first line, the text, the region anew. */
  #redraw(text: string): void {
    if (!this.interactive) {
      if (text !== "") this.output.write(text);
      return;
    }
    const room = (this.output.rows ?? DEFAULT_ROWS) - 1;
    const region = [...this.#table, ...(this.#step === "" ? [] : [this.#step])]
      .slice(-room)
      .map((line) => cut(line, this.columns - 1));
    const up = this.#drawn === 0 ? "" : `\x1b[${this.#drawn}A`;
    const lines = [...text.split("\n").slice(0, -1), ...region];
    this.output.write(`${up}\r${lines.map((line) => `${line}\x1b[K\n`).join("")}\x1b[J`);
    this.#drawn = region.length;
  }
}

/** A line that wrapped would be one more to go up: what does not fit is left out, and the colours with it. */
function cut(line: string, columns: number): string {
  const plain = stripVTControlCharacters(line);
  return plain.length <= columns ? line : plain.slice(0, columns);
}
