const LEVELS = ["trace", "debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LEVELS)[number];

export type LogFields = Readonly<Record<string, string | number | boolean | null>>;

/** Writes log lines for Terraform. Whoever logs keeps secrets out. */
export type Logger = Readonly<Record<LogLevel, (message: string, fields?: LogFields) => void>>;

/**
 * The lowest level that is logged, as Terraform reads its variables: TF_LOG_PROVIDER before TF_LOG; `json` and words it
 * does not know mean `trace`. Unset: `error`. `null`: nothing.
 */
export function logLevel(env: NodeJS.ProcessEnv): LogLevel | null {
  const value = (env.TF_LOG_PROVIDER || env.TF_LOG || "").toLowerCase();
  if (value === "") return "error";
  if (value === "off") return null;
  return LEVELS.find((level) => level === value) ?? "trace";
}

/** A logger that writes one JSON object a line in the form that Terraform turns back into its own log. */
export function createLogger(level: LogLevel | null, write: (line: string) => void): Logger {
  const lowest = level === null ? LEVELS.length : LEVELS.indexOf(level);
  const at = (name: LogLevel) => (message: string, fields?: LogFields) => {
    if (LEVELS.indexOf(name) < lowest) return;
    // Terraform reads timestamps of exactly six fractional digits.
    const timestamp = new Date().toISOString().replace("Z", "000Z");
    const line = { ...fields, "@level": name, "@message": message, "@module": "provider", "@timestamp": timestamp };
    write(`${JSON.stringify(line)}\n`);
  };
  return { trace: at("trace"), debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
