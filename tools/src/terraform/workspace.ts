import { join } from "node:path";
import type { ProcessResult } from "../process";
import type { TerraformPlan, TerraformState } from "./json";

/** Commands whose output has colours and boxes unless they are told otherwise. */
const DECORATED = new Set(
  "apply console destroy get import init output plan providers refresh show state taint test untaint validate".split(
    " ",
  ),
);

export interface TerraformRunOptions {
  /** Variables on top of the sandbox's; undefined takes one away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Kills Terraform and its providers at once; the run rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Ctrl-C: SIGINT to Terraform and its providers. */
  readonly interrupt?: AbortSignal;
  /** What Terraform reads. Default: nothing. */
  readonly input?: string;
  /** Called with each piece of output as it comes. */
  readonly onOutput?: (text: string) => void;
  /** Whether `onOutput` gets Terraform's colours; the result has none either way. Default: false. */
  readonly color?: boolean;
}

export interface TerraformResult extends ProcessResult {
  /** Whether the exit status is 0. */
  readonly ok: boolean;
  /** `all` with each run of blanks, line breaks and box lines as one blank: Terraform wraps its messages at column 78. */
  readonly text: string;
}

/** A folder with a configuration, and Terraform to run on it. A failing command is a result, except where said. */
export interface TerraformWorkspace {
  readonly dir: string;
  /** Runs any command. */
  run(args: readonly string[], options?: TerraformRunOptions): Promise<TerraformResult>;
  /** @throws {Error} If it fails, with its output. */
  init(...args: string[]): Promise<TerraformResult>;
  validate(...args: string[]): Promise<TerraformResult>;
  plan(...args: string[]): Promise<TerraformResult>;
  /** With `-auto-approve`. */
  apply(...args: string[]): Promise<TerraformResult>;
  /** With `-auto-approve`. */
  destroy(...args: string[]): Promise<TerraformResult>;
  /**
   * The state.
   *
   * @throws {Error} If it cannot be read.
   */
  show(): Promise<TerraformState>;
  /**
   * Plans, and returns the plan.
   *
   * @throws {Error} If planning fails, with the output.
   */
  planJson(...args: string[]): Promise<TerraformPlan>;
  /** Writes files of the configuration, by path; undefined removes one. */
  write(files: Readonly<Record<string, string | undefined>>): Promise<void>;
}

/** What a workspace needs of its sandbox. */
export interface WorkspaceHost {
  execute(dir: string, args: readonly string[], options: TerraformRunOptions): Promise<ProcessResult>;
  writeFiles(dir: string, files: Readonly<Record<string, string | undefined>>): Promise<void>;
}

export class SandboxWorkspace implements TerraformWorkspace {
  constructor(
    private readonly host: WorkspaceHost,
    readonly dir: string,
  ) {}

  async run(args: readonly string[], options: TerraformRunOptions = {}): Promise<TerraformResult> {
    const [command, ...rest] = args;
    const decorated = command !== undefined && DECORATED.has(command) && !options.color;
    const plain = decorated ? plainly(command, rest) : args;
    const result = await this.host.execute(this.dir, plain, options);
    const text = result.all.replace(/[\s│╷╵]+/g, " ").trim();
    return { ...result, ok: result.code === 0, text };
  }

  async init(...args: string[]): Promise<TerraformResult> {
    return succeeded("init", await this.run(["init", "-input=false", ...args]));
  }

  validate(...args: string[]): Promise<TerraformResult> {
    return this.run(["validate", ...args]);
  }

  plan(...args: string[]): Promise<TerraformResult> {
    return this.run(["plan", "-input=false", ...args]);
  }

  apply(...args: string[]): Promise<TerraformResult> {
    return this.run(["apply", "-input=false", "-auto-approve", ...args]);
  }

  destroy(...args: string[]): Promise<TerraformResult> {
    return this.run(["destroy", "-input=false", "-auto-approve", ...args]);
  }

  async show(): Promise<TerraformState> {
    return JSON.parse(succeeded("show", await this.run(["show", "-json"])).stdout) as TerraformState;
  }

  async planJson(...args: string[]): Promise<TerraformPlan> {
    const file = join(this.dir, "workhorse.tfplan");
    succeeded("plan", await this.plan(`-out=${file}`, ...args));
    return JSON.parse(succeeded("show", await this.run(["show", "-json", file])).stdout) as TerraformPlan;
  }

  write(files: Readonly<Record<string, string | undefined>>): Promise<void> {
    return this.host.writeFiles(this.dir, files);
  }
}

function plainly(command: string, rest: readonly string[]): string[] {
  // `state` and `providers` have commands below them, which take the option.
  const nested = (command === "state" || command === "providers") && rest[0] !== undefined && !rest[0].startsWith("-");
  return nested ? [command, rest[0]!, "-no-color", ...rest.slice(1)] : [command, "-no-color", ...rest];
}

function succeeded(command: string, result: TerraformResult): TerraformResult {
  if (!result.ok) {
    throw new Error(`terraform ${command} ended with status ${result.code ?? result.endedBy}:\n${result.all}`);
  }
  return result;
}
