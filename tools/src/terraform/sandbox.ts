import { chmod, copyFile, cp, mkdir, mkdtemp, readdir, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { drainGroup, isGroupRunning, type ProcessResult, runProcess, startWatchdog, type Watchdog } from "../process";
import { findTerraform, type TerraformCli } from "./cli";
import { SandboxWorkspace, type TerraformRunOptions, type TerraformWorkspace, type WorkspaceHost } from "./workspace";

/** A provider that a sandbox offers to Terraform. */
export interface ProviderBinary {
  /** Its source address in full, such as `registry.terraform.io/workhorse/workhorse`. */
  readonly source: string;
  readonly version: string;
  /** The executable file. */
  readonly file: string;
}

/** What `npm run build` leaves. */
export const BUILT_PROVIDER: ProviderBinary = {
  source: "registry.terraform.io/workhorse/workhorse",
  version: "0.1.0",
  file: resolve(__dirname, "../../../dist/terraform-provider-workhorse"),
};

/** How long providers may take to end after their Terraform did, before they count as left behind. */
const DRAIN_MS = 10_000;

export interface SandboxOptions {
  /** The providers that can be installed; no other can. Default: the built one. */
  readonly providers?: readonly ProviderBinary[];
  /** Variables of every run, on top of PATH and what keeps Terraform to its sandbox. Default: none. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Terraform with nothing of the machine's around it: no user's configuration, no network, no caller's variables. */
export interface TerraformSandbox {
  readonly cli: TerraformCli;
  /**
   * Makes a workspace: a copy of a folder (without what Terraform keeps there), if one is named, and files by path.
   */
  workspace(
    files?: Readonly<Record<string, string>>,
    options?: { readonly copyOf?: string },
  ): Promise<TerraformWorkspace>;
  /**
   * Kills what still runs and removes all files. Calling it again is fine.
   *
   * @throws {Error} If providers had outlived their Terraform, or left sockets or other temporary files.
   */
  dispose(): Promise<void>;
}

/**
 * Makes a sandbox in a temporary folder, with the providers in a filesystem mirror. If this process dies, what runs in
 * the sandbox is killed and the folder removed.
 *
 * @throws {Error} If `terraform` is not on the PATH, or a provider's file does not exist.
 */
export async function terraformSandbox(options: SandboxOptions = {}): Promise<TerraformSandbox> {
  const cli = await findTerraform();
  const root = await realpath(await mkdtemp(join(tmpdir(), "workhorse-tf-")));
  const watchdog = startWatchdog(root, "KILL");
  try {
    for (const folder of ["home", "tmp", "mirror", "workspaces"]) {
      await mkdir(join(root, folder));
    }
    for (const provider of options.providers ?? [BUILT_PROVIDER]) {
      await offer(join(root, "mirror"), cli, provider);
    }
    const mirror = JSON.stringify(join(root, "mirror"));
    await writeFile(
      join(root, "terraform.tfrc"),
      `disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = ${mirror}\n  }\n}\n`,
    );
    return new Sandbox(cli, root, watchdog, options.env ?? {});
  } catch (error) {
    await watchdog.end();
    throw error;
  }
}

/** Puts a provider into a mirror. It is copied, so that a build during the run changes nothing. */
async function offer(mirror: string, cli: TerraformCli, provider: ProviderBinary): Promise<void> {
  const type = basename(provider.source);
  const file = join(mirror, provider.source, provider.version, cli.platform, `terraform-provider-${type}`);
  await mkdir(dirname(file), { recursive: true });
  try {
    await copyFile(provider.file, file);
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
    throw missing ? new Error(`No provider at ${provider.file}: run "npm run build" first`) : error;
  }
  await chmod(file, 0o755);
}

class Sandbox implements TerraformSandbox, WorkspaceHost {
  readonly #groups = new Set<number>();
  readonly #running = new Set<Promise<unknown>>();
  readonly #end = new AbortController();
  #disposed: Promise<void> | undefined;

  constructor(
    readonly cli: TerraformCli,
    private readonly root: string,
    private readonly watchdog: Watchdog,
    private readonly env: Readonly<Record<string, string | undefined>>,
  ) {}

  async workspace(
    files: Readonly<Record<string, string>> = {},
    options: { readonly copyOf?: string } = {},
  ): Promise<TerraformWorkspace> {
    const dir = await mkdtemp(join(this.root, "workspaces", "w-"));
    if (options.copyOf !== undefined) {
      const filter = (path: string) => !/^\.terraform|\.tfstate/.test(basename(path));
      await cp(options.copyOf, dir, { recursive: true, filter });
    }
    await this.writeFiles(dir, files);
    return new SandboxWorkspace(this, dir);
  }

  async writeFiles(dir: string, files: Readonly<Record<string, string | undefined>>): Promise<void> {
    for (const [path, text] of Object.entries(files)) {
      const file = join(dir, path);
      if (text === undefined) {
        await rm(file, { force: true });
      } else {
        await mkdir(dirname(file), { recursive: true });
        await writeFile(file, text);
      }
    }
  }

  async execute(dir: string, args: readonly string[], options: TerraformRunOptions): Promise<ProcessResult> {
    const signals = [this.#end.signal, ...(options.signal ? [options.signal] : [])];
    let group: number | undefined;
    let unguard = () => {};
    const run = runProcess(this.cli.file, args, {
      cwd: dir,
      env: { ...this.#environment(), ...this.env, ...options.env },
      input: options.input,
      signal: AbortSignal.any(signals),
      interrupt: options.interrupt,
      onOutput: options.onOutput,
      onStart: (id) => {
        group = id;
        unguard = this.watchdog.guard(-id);
        this.#groups.add(id);
      },
    });
    this.#running.add(run);
    try {
      return await run;
    } finally {
      this.#running.delete(run);
      // A provider that is still ending stays guarded, and is looked at again by dispose.
      if (group !== undefined && !(await isGroupRunning(group))) {
        this.#groups.delete(group);
        unguard();
      }
    }
  }

  dispose(): Promise<void> {
    this.#disposed ??= this.#remove();
    return this.#disposed;
  }

  #environment(): Record<string, string | undefined> {
    return {
      PATH: process.env.PATH,
      HOME: join(this.root, "home"),
      // Providers put their sockets here, so that dispose sees the ones that were left.
      TMPDIR: join(this.root, "tmp"),
      LANG: "C.UTF-8",
      TZ: "UTC",
      TF_CLI_CONFIG_FILE: join(this.root, "terraform.tfrc"),
      TF_IN_AUTOMATION: "1",
      CHECKPOINT_DISABLE: "1",
    };
  }

  async #remove(): Promise<void> {
    const killed = this.#running.size > 0;
    this.#end.abort(new Error("The Terraform sandbox was disposed of"));
    await Promise.allSettled(this.#running);
    const drained = await Promise.all([...this.#groups].map((group) => drainGroup(group, DRAIN_MS)));
    const left = await readdir(join(this.root, "tmp"));
    await rm(this.root, { recursive: true, force: true });
    await this.watchdog.end();
    if (drained.some(Boolean)) {
      throw new Error(`A provider was still running ${DRAIN_MS / 1000} s after its Terraform had ended: it was killed`);
    }
    if (left.length > 0 && !killed) {
      throw new Error(`Terraform or a provider left temporary files: ${left.join(", ")}`);
    }
  }
}
