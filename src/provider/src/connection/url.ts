/** The parts of a connection; undefined = not given. */
export interface ConnectionParts {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly database?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly sslmode?: string | undefined;
  readonly sslRootCert?: string | undefined;
}

/** A connection URL that cannot be read. The message quotes nothing of it: it may hold a password. */
export class UrlError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "UrlError";
  }
}

const SHAPE = /^postgres(?:ql)?:\/\/(?:([^/?]*)@)?(\[[^\]/?@]*\]|[^/?@:]*)(?::([^/?@]*))?(?:\/([^?]*))?(?:\?(.*))?$/s;

/** Parameters of a URL that only name a part in another way. */
const PARAMETERS = ["host", "port", "dbname", "user", "password", "sslmode", "sslrootcert"] as const;

/**
 * Reads a connection URL as libpq does: `postgresql://user:password@host:port/database?sslmode=require`, special
 * characters percent-encoded. Names of parameters that mean nothing here are returned as `ignored`.
 * @throws UrlError
 */
export function parseUrl(url: string): ConnectionParts & { readonly ignored: readonly string[] } {
  if (url !== url.trim()) {
    throw new UrlError(
      "It begins or ends with a blank or a line break. Leave that out; Terraform has trimspace() for it.",
    );
  }
  const match = SHAPE.exec(url);
  if (match === null) {
    throw new UrlError(
      "It does not have the form postgresql://user:password@host:port/database. Percent-encode special characters in " +
        "its parts, such as %40 for @, %3A for :, %2F for / and %3F for ?.",
    );
  }
  const [, userInfo, hostText = "", portText, path, query] = match;
  // A "/" or "?" inside the password ends it early. What then stands for a host, database or parameter may be a secret.
  if (path?.includes("@") || query?.includes("@")) {
    throw new UrlError(
      'An "@" stands behind the host. In the user and the password, write %2F for / and %3F for ?; in the database and the ' +
        "parameters, write %40 for @.",
    );
  }
  if (hostText.includes(",")) throw new UrlError("It names more than one host; accepted is one.");
  const colon = userInfo?.indexOf(":") ?? -1;
  const user = colon < 0 ? userInfo : userInfo?.slice(0, colon);
  const secret = colon < 0 ? undefined : userInfo?.slice(colon + 1);
  const parameters = new Map<string, string>();
  for (const pair of (query ?? "").split("&").filter((text) => text !== "")) {
    const equals = pair.indexOf("=");
    const name = decode(equals < 0 ? pair : pair.slice(0, equals), "a parameter's name");
    parameters.set(name, equals < 0 ? "" : decode(pair.slice(equals + 1), `the parameter ${name}`));
  }
  const given = (text: string | undefined) => (text === undefined || text === "" ? undefined : text);
  const host = decode(hostText.replace(/^\[(.*)\]$/, "$1"), "the host");
  return {
    host: given(parameters.get("host")) ?? given(host),
    port: parsePort(given(parameters.get("port")) ?? given(portText)),
    database: given(parameters.get("dbname")) ?? given(decode(path ?? "", "the database")),
    username: given(parameters.get("user")) ?? given(decode(user ?? "", "the user")),
    password: given(parameters.get("password")) ?? given(decode(secret ?? "", "the password")),
    sslmode: given(parameters.get("sslmode")),
    sslRootCert: given(parameters.get("sslrootcert")),
    ignored: [...parameters.keys()].filter((name) => !(PARAMETERS as readonly string[]).includes(name)),
  };
}

/** @throws UrlError when the text is no port. */
export function parsePort(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const port = Number(text);
  if (!/^\d+$/.test(text) || port < 1 || port > 65_535)
    throw new UrlError("Its port is no whole number from 1 to 65,535.");
  return port;
}

function decode(text: string, what: string): string {
  try {
    const decoded = decodeURIComponent(text);
    if (!decoded.includes("\0")) return decoded;
  } catch {
    throw new UrlError(`In ${what} stands a "%" that begins no percent-encoded character; write %25 for a plain "%".`);
  }
  throw new UrlError(`In ${what} stands a NUL character (%00), which PostgreSQL does not accept.`);
}
