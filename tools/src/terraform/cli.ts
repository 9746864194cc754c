import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { runProcess } from "../process";

/** The Terraform CLI that a sandbox runs. */
export interface TerraformCli {
  /** The program's path. */
  readonly file: string;
  /** Such as `1.11.4`. */
  readonly version: string;
  /** What it runs on, as Terraform writes it: `linux_amd64`. */
  readonly platform: string;
}

/**
 * Finds the `terraform` on the PATH.
 *
 * @throws {Error} If there is none, or it does not run.
 */
export async function findTerraform(): Promise<TerraformCli> {
  for (const folder of (process.env.PATH ?? "").split(delimiter).filter(Boolean)) {
    const file = join(folder, "terraform");
    const runnable = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (runnable) {
      return describe(file);
    }
  }
  throw new Error(
    "terraform was not found on the PATH: install Terraform 1.8 or newer, https://developer.hashicorp.com/terraform/install",
  );
}

async function describe(file: string): Promise<TerraformCli> {
  const env = { PATH: process.env.PATH, CHECKPOINT_DISABLE: "1" };
  const result = await runProcess(file, ["version", "-json"], { cwd: "/", env });
  try {
    const { terraform_version, platform } = JSON.parse(result.stdout) as Record<string, string>;
    return { file, version: terraform_version!, platform: platform! };
  } catch {
    throw new Error(`${file} version -json failed (status ${result.code}): ${result.all.trim()}`);
  }
}
