/**
 * What the processes of one test run share: Jest's main process puts it into the environment, from which its workers
 * take it.
 */
export interface TestRun {
  /** Eight hexadecimal digits that are in every name the run makes on the server. */
  readonly id: string;
  /** A superuser's URL of the server that the run uses. */
  readonly url: string;
}

const RUN_ID = "WORKHORSE_TEST_RUN_ID";
const RUN_URL = "WORKHORSE_TEST_RUN_URL";

export function announceRun(run: TestRun): void {
  process.env[RUN_ID] = run.id;
  process.env[RUN_URL] = run.url;
}

/** @throws {Error} If this process does not belong to a run. */
export function currentRun(): TestRun {
  const [id, url] = [process.env[RUN_ID], process.env[RUN_URL]];
  if (!id || !url) {
    throw new Error("No test run here: testDatabase() works in tests started by Jest with the root's jest.config.js");
  }
  return { id, url };
}

/** The prefix of all databases and roles of a run. */
export function namePrefix(run: TestRun): string {
  return `wh_${run.id}_`;
}

/** The URL of another database on the same server. */
export function withDatabase(url: string, database: string): string {
  const changed = new URL(url);
  changed.pathname = `/${encodeURIComponent(database)}`;
  return changed.href;
}
