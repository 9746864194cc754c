const longest = 60;

/** A value as a person would write it, shortened: for "got ..." in an error. Not for payloads, which may hold secrets. */
export function shown(value: unknown): string {
  switch (typeof value) {
    case "string":
      return JSON.stringify(value.length > longest ? `${value.slice(0, longest)}...` : value);
    case "number":
      return Object.is(value, -0) ? "0" : String(value);
    case "bigint":
      return `${String(value).slice(0, longest)}n`;
    case "boolean":
      return String(value);
    case "undefined":
      return "nothing";
    default:
      return value === null ? "null" : kindOf(value);
  }
}

/** What a value is, without its content. */
export function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (value === undefined) return "undefined";
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === "object") {
    const prototype = Object.getPrototypeOf(value) as { constructor?: { name?: unknown } } | null;
    const name = prototype?.constructor?.name;
    return typeof name === "string" && name !== "" && name !== "Object" ? `an object of class ${name}` : "an object";
  }
  return `a ${typeof value}`;
}

/** A whole number with thousands separators, as the accepted ranges are written. */
export function grouped(value: number): string {
  return value.toLocaleString("en-US");
}
