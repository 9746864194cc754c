/** The PostgreSQL majors that Workhorse supports, each with the exact build from npm that the tests run on. */
export const POSTGRES_BUILDS: ReadonlyMap<number, string> = new Map([
  [15, "15.18.0-beta.17"],
  [16, "16.14.0-beta.17"],
  [17, "17.10.0-beta.17"],
  [18, "18.4.0-beta.17"],
]);

/** The major that is used when none is asked for; its build is a dependency of this package. */
export const DEFAULT_POSTGRES_MAJOR = 18;

/**
 * Reads a PostgreSQL major version from text such as an environment variable.
 *
 * @param text The text; undefined and the empty string mean {@link DEFAULT_POSTGRES_MAJOR}.
 * @param origin Where the text came from, for the error.
 * @throws {Error} If it is not one of the supported majors.
 */
export function parsePostgresMajor(text: string | undefined, origin: string): number {
  if (text === undefined || text === "") {
    return DEFAULT_POSTGRES_MAJOR;
  }
  const major = Number(text);
  if (!POSTGRES_BUILDS.has(major)) {
    const accepted = [...POSTGRES_BUILDS.keys()].join(", ");
    throw new Error(`${origin}: got ${JSON.stringify(text)}, accepted is a PostgreSQL major: ${accepted}`);
  }
  return major;
}
