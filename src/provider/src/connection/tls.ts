import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { type ConnectionOptions, checkServerIdentity } from "node:tls";
import { type ConnectionSettings, SettingsError } from "./settings";

/** How to try to connect: without TLS, or with these options. */
export type TlsChoice = false | ConnectionOptions;

/**
 * What sslmode means, as libpq defines it: the ways to connect, to be tried in this order until one is not turned away.
 * (The driver itself takes prefer, require and verify-ca for verify-full.)
 * @throws SettingsError when the root certificates cannot be read.
 */
export function tlsChoices(settings: ConnectionSettings): readonly TlsChoice[] {
  // libpq never speaks TLS over a unix socket.
  if (settings.host.startsWith("/")) return [false];
  const unverified: ConnectionOptions = { rejectUnauthorized: false };
  switch (settings.sslmode) {
    case "disable":
      return [false];
    case "allow":
      return [false, unverified];
    case "prefer":
      return [unverified, false];
    case "require":
      // With root certificates at hand, libpq checks them even here.
      return settings.sslRootCert === undefined ? [unverified] : [verified(settings, false)];
    case "verify-ca":
      return [verified(settings, false)];
    case "verify-full":
      return [verified(settings, true)];
  }
}

function verified(settings: ConnectionSettings, checkName: boolean): ConnectionOptions {
  const ca = rootCertificates(settings.sslRootCert);
  return {
    rejectUnauthorized: true,
    ...(ca === undefined ? {} : { ca }),
    checkServerIdentity: (_host, certificate) =>
      checkName ? checkServerIdentity(settings.host, certificate) : undefined,
  };
}

/** Undefined = those that Node.js trusts. */
function rootCertificates(setting: string | undefined): string | undefined {
  if (setting === "system") return undefined;
  if (setting?.includes("-----BEGIN CERTIFICATE-----")) return setting;
  const file = setting ?? join(homedir(), ".postgresql", "root.crt");
  if (setting === undefined && !existsSync(file)) return undefined;
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? "unreadable";
    throw new SettingsError(
      `The root certificates ${JSON.stringify(file)} cannot be read (${reason}). Accepted is the path of a PEM file, the ` +
        `certificates themselves, or "system".`,
      "ssl_root_cert",
    );
  }
}
