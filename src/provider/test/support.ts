import type { TerraformWorkspace } from "@workhorse/tools";

/** The head of a configuration that uses the provider; its database comes from the environment. */
export const HEAD = `
terraform {
  required_providers {
    workhorse = { source = "workhorse/workhorse" }
  }
}
`;

/** Runs of blanks as one: for comparing texts that Terraform wraps. */
export const flat = (text: string): string => text.replace(/[\s│╷╵]+/g, " ").trim();

/** The attributes of one resource in the state. */
export async function stateOf(workspace: TerraformWorkspace, address: string): Promise<Record<string, unknown>> {
  const { values } = await workspace.show();
  const found = values?.root_module.resources?.find((resource) => resource.address === address);
  if (found === undefined) throw new Error(`the state has no ${address}`);
  return { ...found.values };
}
