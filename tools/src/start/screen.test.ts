import { describe, expect, test } from "@jest/globals";
import { Screen } from "./screen";

/** A terminal of so many columns and rows, which understands what a screen writes. */
class Terminal {
  readonly isTTY = true;
  readonly lines: string[] = [""];
  #row = 0;
  #column = 0;

  constructor(
    readonly columns = 80,
    readonly rows = 24,
  ) {}

  write(text: string): void {
    const [plain, ...sequences] = text.split("\x1b[");
    this.#type(plain!);
    for (const sequence of sequences) {
      const [, count, command, rest] = /^(\d*)([A-Za-z])(.*)$/s.exec(sequence)!;
      if (command === "A") this.#row -= Number(count);
      if (command === "J") this.lines.splice(this.#row + 1);
      if (command === "J" || command === "K") this.lines[this.#row] = this.lines[this.#row]!.slice(0, this.#column);
      this.#type(rest!);
    }
  }

  #type(text: string): void {
    for (const character of text) {
      if (character === "\r") this.#column = 0;
      else if (character === "\n") {
        this.#row += 1;
        this.#column = 0;
        this.lines[this.#row] ??= "";
      } else {
        const line = this.lines[this.#row]!;
        this.lines[this.#row] = line.slice(0, this.#column) + character + line.slice(this.#column + 1);
        this.#column += 1;
      }
    }
  }
}

class File {
  text = "";
  write(text: string): void {
    this.text += text;
  }
}

describe("Screen", () => {
  test("redraws its table in place, below the text", () => {
    const terminal = new Terminal();
    const screen = new Screen(terminal, {});
    screen.print("first");
    screen.table(["a 1", "b 1"]);
    screen.table(["a 2", "b 2"]);
    expect(terminal.lines).toEqual(["first", "a 2", "b 2", ""]);
    const stream = screen.stream();
    stream.write("sec");
    stream.write("ond\nthi");
    expect(terminal.lines).toEqual(["first", "second", "a 2", "b 2", ""]);
    stream.end();
    screen.table(["a 3"]);
    expect(terminal.lines).toEqual(["first", "second", "thi", "a 3", ""]);
    screen.endTable({ keep: true });
    screen.print("last");
    expect(terminal.lines).toEqual(["first", "second", "thi", "a 3", "last", ""]);
  });

  test("cuts what would wrap or not fit, as it could not be redrawn", () => {
    const terminal = new Terminal(10, 4);
    const screen = new Screen(terminal, {});
    screen.table(["top", "\x1b[1m0123456789abc\x1b[22m", "x", "y"]);
    expect(terminal.lines).toEqual(["012345678", "x", "y", ""]);
  });

  test("writes plain text where there is no terminal", async () => {
    const file = new File();
    const screen = new Screen(file, { TERM: "xterm" });
    expect(await screen.step("Working", async () => 7)).toBe(7);
    screen.table(["a 1"]);
    await screen.section("Showing", async () => screen.print("output"));
    await expect(screen.step("Failing", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(file.text.replace(/\d+\.\d s/g, "N s")).toBe(
      "Working ... N s\n\nShowing\n\noutput\nShowing ... N s\nFailing ... failed\n",
    );
  });

  test("uses colours on a terminal unless told otherwise", () => {
    const colorful = (output: object, env: Record<string, string>) =>
      new Screen({ write: () => {}, ...output }, env).colorful;
    expect(colorful({ isTTY: true }, { TERM: "xterm" })).toBe(true);
    expect(colorful({ isTTY: true }, { TERM: "dumb" })).toBe(false);
    expect(colorful({ isTTY: true }, { NO_COLOR: "1" })).toBe(false);
    expect(colorful({}, { CI: "1" })).toBe(false);
    expect(colorful({}, { FORCE_COLOR: "1" })).toBe(true);
  });
});
