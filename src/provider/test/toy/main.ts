import { serve } from "../../src/plugin/serve";
import { providerHandler } from "../../src/server/handler";
import { toyProvider } from "./provider";

void serve({
  load: () => providerHandler(toyProvider),
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
}).then(({ ended }) => ended);
