export { type Bound, bounds } from "./bounds";
export { SchemaError, type SchemaProblem } from "./errors";
export { type Installation, installedVersion, installSchema, requireVersion, type SqlClient } from "./install";
export { schemaVersion } from "./migrations";
export { formatVersion, majorOf, type SchemaVersion } from "./version";
