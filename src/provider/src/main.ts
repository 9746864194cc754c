import {
  HandshakeError,
  launchedByTerraform,
  type RunningPlugin,
  type ServeOptions,
  serve,
  serveForDebugging,
} from "./plugin/serve";

const SOURCE = "registry.terraform.io/workhorse/workhorse";

const NOT_FOR_PEOPLE = `This is terraform-provider-workhorse, a plugin that Terraform starts by itself.
To use it, name it in a Terraform configuration and run terraform init:

  terraform {
    required_providers {
      workhorse = { source = "workhorse/workhorse" }
    }
  }

To debug it, start it with --debug and set the variable that it prints.
`;

async function main(): Promise<void> {
  const debug = process.argv.includes("--debug");
  if (!debug && !launchedByTerraform(process.env)) {
    process.stderr.write(NOT_FOR_PEOPLE);
    process.exitCode = 1;
    return;
  }
  // Ctrl-C reaches the whole process group; Terraform then asks by StopProvider, and ends its providers itself. When it
  // is gone instead, nobody reads what is written.
  process.stdout.on("error", () => {});
  process.stderr.on("error", () => {});
  const options: ServeOptions = {
    load: () => {
      const { providerHandler } = require("./server/handler") as typeof import("./server/handler");
      const { workhorseProvider } = require("./provider") as typeof import("./provider");
      return providerHandler(workhorseProvider(process.env));
    },
    env: process.env,
    stdout: process.stdout,
    stderr: process.stderr,
  };
  let plugin: RunningPlugin | undefined;
  let ending: string | undefined;
  const end = (reason: string) => {
    ending ??= reason;
    void plugin?.stop(reason);
  };
  // Before anybody can know that the process is there.
  process.on("SIGINT", () => {
    if (debug) end("interrupted");
  });
  process.on("SIGTERM", () => end("terminated"));
  try {
    plugin = debug ? await serveForDebugging(SOURCE, options) : await serve(options);
  } catch (error) {
    if (!(error instanceof HandshakeError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
    return;
  }
  if (ending !== undefined) end(ending);
  await plugin.ended;
  // Work that could not be stopped in time must not keep the process.
  process.exit();
}

void main();
