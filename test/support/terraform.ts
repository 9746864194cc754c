import { type SandboxOptions, type TerraformSandbox, terraformSandbox } from "@workhorse/tools";

/**
 * A Terraform sandbox for a test file, with the provider that the build left in dist/. Call `dispose` in `afterAll`: it
 * also fails when providers or their sockets were left behind.
 *
 * ```ts
 * let terraform: TerraformSandbox;
 * beforeAll(async () => { terraform = await testTerraform({ env: { WORKHORSE_DATABASE_URL: database.url } }); });
 * afterAll(() => terraform.dispose());
 * ```
 */
export function testTerraform(options: SandboxOptions = {}): Promise<TerraformSandbox> {
  return terraformSandbox(options);
}
