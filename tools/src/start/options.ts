export const USAGE = `Usage: npm start [-- --once]

Starts a PostgreSQL of its own, declares limits with the real Terraform, and shows real workers keep to them.
  --once   ends by itself, with status 1 if anything started that the limits do not allow
  --help   shows this

Without --once it goes on until Ctrl-C. Nothing is left behind either way.`;

export interface StartOptions {
  /** Whether to end after the demonstration. Default: false, it goes on until Ctrl-C. */
  readonly once: boolean;
}

/** A command line that cannot be understood; the message says why. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/**
 * Reads the command line: what to do, or "help".
 *
 * @throws {UsageError}
 */
export function parseOptions(args: readonly string[]): StartOptions | "help" {
  const unknown = args.find((argument) => !["--once", "--help", "-h"].includes(argument));
  if (unknown !== undefined) {
    throw new UsageError(`npm start: unknown option ${JSON.stringify(unknown)}; accepted are --once and --help`);
  }
  return args.some((argument) => argument !== "--once") ? "help" : { once: args.includes("--once") };
}
