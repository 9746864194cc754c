export { findTerraform, type TerraformCli } from "./cli";
export type * from "./json";
export {
  BUILT_PROVIDER,
  type ProviderBinary,
  type SandboxOptions,
  type TerraformSandbox,
  terraformSandbox,
} from "./sandbox";
export type { TerraformResult, TerraformRunOptions, TerraformWorkspace } from "./workspace";
