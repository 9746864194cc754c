import { formatPath, type Path } from "../path";

/** Bytes or a value that do not fit the type they should have. */
export class CodecError extends Error {
  constructor(
    readonly path: Path,
    readonly problem: string,
  ) {
    super(path.length === 0 ? problem : `${formatPath(path)}: ${problem}`);
    this.name = "CodecError";
  }
}

/** What a JavaScript value is, in Terraform's words; never its content, which may be secret. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return "null";
  if (Array.isArray(value)) return "a list";
  switch (typeof value) {
    case "number":
    case "bigint":
      return "a number";
    case "boolean":
      return "a bool";
    case "object":
      return value instanceof Map ? "a map" : "an object";
    default:
      return `a ${typeof value}`;
  }
}
