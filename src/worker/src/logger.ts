/** What is known beside a message: plain values, and `error` for what was thrown. */
export type LogFields = Readonly<Record<string, unknown>>;

/**
 * Where a worker says what happens. Troubles are said once when they begin and once when they end. Neither payloads nor
 * results nor connection strings are ever logged.
 */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

/** Says nothing. */
export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** Writes warnings and errors to standard error, one line each. The default. */
export const consoleLogger: Logger = {
  debug() {},
  info() {},
  warn: (message, fields) => console.warn(line("warning", message, fields)),
  error: (message, fields) => console.error(line("error", message, fields)),
};

/** The same logger, whose own errors do no harm to who logs. */
export function protectedLogger(logger: Logger): Logger {
  const guard =
    (level: keyof Logger) =>
    (message: string, fields?: LogFields): void => {
      try {
        logger[level](message, fields);
      } catch {
        // There is nowhere left to say it.
      }
    };
  return { debug: guard("debug"), info: guard("info"), warn: guard("warn"), error: guard("error") };
}

function line(level: string, message: string, fields: LogFields = {}): string {
  const shown = Object.entries(fields).map(
    ([name, value]) => `${name}=${JSON.stringify(plain(value)) ?? String(value)}`,
  );
  return [`workhorse ${level}: ${message}`, ...shown].join(" ");
}

const plain = (value: unknown): unknown => (value instanceof Error ? `${value.name}: ${value.message}` : value);
