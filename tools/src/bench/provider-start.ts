import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { clientCertificate } from "./client-certificate";
import { formatResults, interleave, timed } from "./measure";
import type { Suite } from "./suite";

const provider = join(__dirname, "../../../dist/terraform-provider-workhorse");

export const providerStartSuite: Suite = {
  name: "provider-start",
  about: "exec to handshake of the provider, against `node -e 0`",
  async run({ rounds, print }) {
    const env = { ...process.env };
    // Node.js parses that bundle at each start; neither side is to pay for it.
    delete env.NODE_EXTRA_CA_CERTS;
    const pluginEnv = {
      ...env,
      TF_PLUGIN_MAGIC_COOKIE: "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
      PLUGIN_PROTOCOL_VERSIONS: "5,6",
      PLUGIN_CLIENT_CERT: clientCertificate,
    };
    const variants = [
      {
        name: "node -e 0",
        measure: () =>
          timed(async () => {
            await once(spawn(process.execPath, ["-e", "0"], { env, stdio: "ignore" }), "exit");
          }),
      },
      {
        name: "provider, script",
        async measure() {
          const child = spawn(provider, { env: pluginEnv, stdio: ["ignore", "pipe", "ignore"] });
          const ms = await timed(() => once(child.stdout, "data"));
          child.kill();
          await once(child, "exit");
          return ms;
        },
      },
    ];
    print(`Provider's start, Node.js ${process.version}, ${rounds} rounds; exec to handshake line`);
    print(formatResults("ms", await interleave(variants, rounds)));
  },
};
