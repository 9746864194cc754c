/** A schema version: `major * 1000 + minor`. A newer minor is compatible; a newer major is not. */
export type SchemaVersion = number;

/** `1000` as `"1.0"`. */
export function formatVersion(version: SchemaVersion): string {
  return `${majorOf(version)}.${version % 1000}`;
}

/** The part of a version that must not be newer than the one a program knows. */
export function majorOf(version: SchemaVersion): number {
  return Math.floor(version / 1000);
}
