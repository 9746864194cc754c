/** What Terraform puts into the environment of a provider that it starts. Not a secret: it tells a launch from a person. */
const MAGIC_COOKIE_KEY = "TF_PLUGIN_MAGIC_COOKIE";
const MAGIC_COOKIE_VALUE = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2";

const CORE_PROTOCOL_VERSION = 1;
export const PROTOCOL_VERSION = 6;

/** Why a launch cannot go on. The message is for whoever started the process. */
export class HandshakeError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "HandshakeError";
  }
}

export interface Launch {
  /** The one client certificate that is let in, PEM. */
  readonly clientCertificatePem: string;
  /** Bounds for a TCP port, where there are no unix sockets. */
  readonly minPort: number;
  readonly maxPort: number;
}

/** Whether Terraform (or a kin of it) started this process, rather than a person. */
export function launchedByTerraform(env: NodeJS.ProcessEnv): boolean {
  return env[MAGIC_COOKIE_KEY] === MAGIC_COOKIE_VALUE;
}

/** Reads a launch from the environment. @throws HandshakeError when this provider cannot serve it. */
export function readLaunch(env: NodeJS.ProcessEnv): Launch {
  const versions = (env.PLUGIN_PROTOCOL_VERSIONS ?? "").split(",").map((version) => version.trim());
  if (!versions.includes(String(PROTOCOL_VERSION))) {
    throw new HandshakeError(
      `Terraform offers the plugin protocol versions ${JSON.stringify(env.PLUGIN_PROTOCOL_VERSIONS ?? "")}, but this ` +
        `provider speaks version ${PROTOCOL_VERSION}. Use Terraform 1.0 or newer, or OpenTofu.`,
    );
  }
  const clientCertificatePem = env.PLUGIN_CLIENT_CERT ?? "";
  if (clientCertificatePem === "") {
    throw new HandshakeError(
      "PLUGIN_CLIENT_CERT is not set: this provider serves only over mutual TLS. Use Terraform 1.0 or newer, or OpenTofu.",
    );
  }
  return {
    clientCertificatePem,
    minPort: port(env.PLUGIN_MIN_PORT, 10_000),
    maxPort: port(env.PLUGIN_MAX_PORT, 25_000),
  };
}

function port(text: string | undefined, fallback: number): number {
  const value = Number(text);
  return Number.isInteger(value) && value > 0 && value < 65_536 ? value : fallback;
}

export type Address = { readonly network: "unix" | "tcp"; readonly address: string };

/** The one line on stdout by which Terraform finds the server. */
export function handshakeLine({ network, address }: Address, certificateDer: Uint8Array): string {
  const certificate = Buffer.from(certificateDer).toString("base64").replace(/=+$/, "");
  return `${CORE_PROTOCOL_VERSION}|${PROTOCOL_VERSION}|${network}|${address}|grpc|${certificate}\n`;
}

/** What `TF_REATTACH_PROVIDERS` must hold for Terraform to use a provider that already runs. */
export function reattachConfig(source: string, { network, address }: Address, pid: number): string {
  const entry = {
    Protocol: "grpc",
    ProtocolVersion: PROTOCOL_VERSION,
    Pid: pid,
    Test: true,
    Addr: { Network: network, String: address },
  };
  return JSON.stringify({ [source]: entry });
}
