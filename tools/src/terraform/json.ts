/** The parts of `terraform show -json` that are read here; see Terraform's "JSON Output Format". */
export interface TerraformState {
  readonly terraform_version?: string;
  readonly values?: {
    readonly outputs?: Readonly<Record<string, { readonly value: unknown; readonly sensitive: boolean }>>;
    readonly root_module: TerraformModule;
  };
}

export interface TerraformModule {
  readonly address?: string;
  readonly resources?: readonly TerraformResource[];
  readonly child_modules?: readonly TerraformModule[];
}

export interface TerraformResource {
  readonly address: string;
  readonly mode: "managed" | "data";
  readonly type: string;
  readonly name: string;
  readonly values: Readonly<Record<string, unknown>>;
  readonly sensitive_values: unknown;
}

export interface TerraformPlan {
  readonly format_version: string;
  readonly planned_values?: TerraformState["values"];
  readonly resource_changes?: readonly TerraformResourceChange[];
  readonly resource_drift?: readonly TerraformResourceChange[];
  readonly output_changes?: Readonly<Record<string, TerraformChange>>;
  readonly applyable: boolean;
  readonly complete: boolean;
  readonly errored: boolean;
}

export interface TerraformResourceChange {
  readonly address: string;
  readonly previous_address?: string;
  readonly type: string;
  readonly name: string;
  readonly change: TerraformChange;
  readonly action_reason?: string;
}

export interface TerraformChange {
  readonly actions: readonly ("no-op" | "create" | "read" | "update" | "delete" | "forget")[];
  readonly before: Readonly<Record<string, unknown>> | null;
  readonly after: Readonly<Record<string, unknown>> | null;
  readonly after_unknown: unknown;
  readonly replace_paths?: readonly unknown[];
}
