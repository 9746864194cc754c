import { createHash } from "node:crypto";
import { functionFiles, migrationFiles } from "./files.generated";
import type { SchemaVersion } from "./version";

/** One step of the schema: numbered, forward only, never edited once released. */
export interface Migration {
  readonly version: SchemaVersion;
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of `sql`, in hex. */
  readonly checksum: string;
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** The numbered migrations, ascending. */
export const migrations: readonly Migration[] = migrationFiles.map(([file, sql]) => {
  const match = /^(\d+)-(.+)\.sql$/.exec(file);
  if (!match) throw new Error(`migration file ${file}: expected VERSION-NAME.sql`);
  return { version: Number(match[1]), name: match[2]!, sql, checksum: sha256(sql) };
});

/** The schema version that this package installs. */
export const schemaVersion: SchemaVersion = migrations[migrations.length - 1]!.version;

/**
 * The present definition of every function, applied after the migrations and again whenever their text changed. In the
 * ledger this is the row `functions` of the version that it belongs to.
 */
export const functions: Migration = (() => {
  // The files are in the order of their concerns, not of who calls whom.
  const sql = ["SET LOCAL check_function_bodies = off;", ...functionFiles.map(([, text]) => text)].join("\n");
  return { version: schemaVersion, name: "functions", sql, checksum: sha256(sql) };
})();
