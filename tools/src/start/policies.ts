import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { TerraformWorkspace } from "../terraform";
import type { Interrupts } from "./interrupts";
import type { Screen } from "./screen";

const FILE = "main.tf";
const PLAN = "quickstart.tfplan";
const BEFORE = "limit = 60,";
const AFTER = "limit = 600,";

/** The quickstart's policies, in a folder of their own, and the real Terraform to apply them. */
export class Policies {
  constructor(
    private readonly workspace: TerraformWorkspace,
    private readonly screen: Screen,
    private readonly interrupts: Interrupts,
  ) {}

  /** Where the configuration is. */
  get folder(): string {
    return this.workspace.dir;
  }

  async init(): Promise<void> {
    await this.screen.step("terraform init", () => this.#run(["init", "-input=false"]));
  }

  /** Plans and applies exactly that plan; shows both as Terraform does. */
  async planAndApply(): Promise<void> {
    await this.screen.section("terraform plan", () => this.#show(["plan", "-input=false", `-out=${PLAN}`]));
    await this.screen.section("terraform apply", () => this.#show(["apply", "-input=false", PLAN]));
  }

  /** Allows ten times as many starts, as an editor would. */
  async raiseLimit(): Promise<void> {
    const text = await readFile(join(this.workspace.dir, FILE), "utf8");
    const lines = text.split("\n").filter((line) => line.includes(BEFORE));
    const [line] = lines;
    if (line === undefined || lines.length > 1) {
      throw new Error(
        `examples/quickstart/${FILE} has ${lines.length} lines with "${BEFORE}"; npm start changes the one`,
      );
    }
    const changed = line.replace(BEFORE, AFTER);
    await this.workspace.write({ [FILE]: text.replace(line, changed) });
    const { red, green, bold } = this.screen.colors;
    this.screen.print(`\n${bold(`Changing a limit in ${FILE}`)}\n\n${red(`-${line}`)}\n${green(`+${changed}`)}`);
  }

  async #show(args: readonly string[]): Promise<void> {
    const output = this.screen.stream();
    let begun = false;
    const write = (text: string) => {
      const rest = begun ? text : text.trimStart(); // the title has its blank line
      begun ||= rest !== "";
      output.write(rest);
    };
    await this.#run(args, write).finally(() => output.end());
  }

  async #run(args: readonly string[], onOutput?: (text: string) => void): Promise<void> {
    const { signal, hurry } = this.interrupts;
    const result = await this.workspace.run(args, {
      interrupt: signal,
      signal: hurry,
      color: this.screen.colorful,
      ...(onOutput ? { onOutput } : {}),
    });
    signal.throwIfAborted();
    if (!result.ok) {
      const shown = onOutput === undefined ? `:\n${result.all}` : "";
      throw new Error(`terraform ${args[0]} ended with status ${result.code ?? result.endedBy}${shown}`);
    }
  }
}
