import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { type TestDatabase, testDatabase } from "../../../../test/support/database";
import { gate, Recording, RecordingLogger, RecordingPool } from "../../test/support";
import { Listener } from "./listener";

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase({ schema: false });
});
afterAll(() => database.drop());

/** A pool behind which, as behind a pooler in transaction mode, LISTEN is taken but has no effect. */
class DeafPool extends RecordingPool {
  override async query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }> {
    return super.query(text.replace("pg_notify($1, '')", "concat($1::text)"), values);
  }
}

describe("Listener", () => {
  test("hands on what is notified, and says when it listens", async () => {
    const heard = new Recording<string>();
    const changes = new Recording<boolean>();
    const pool = new RecordingPool(database.pool);
    const listener = new Listener(pool, new RecordingLogger(), {
      notified: (queue) => heard.add(queue),
      changed: (listening) => changes.add(listening),
    });
    listener.start();
    await changes.until((all) => all.length === 1);
    expect(listener.listening).toBe(true);
    await database.pool.query(
      "SELECT pg_notify('workhorse_jobs', 'a'), pg_notify('other', 'b'), pg_notify('workhorse_jobs', 'c')",
    );
    await heard.until((all) => all.length === 2);
    expect(heard.all).toEqual(["a", "c"]);
    await listener.stop();
    expect(changes.all).toEqual([true, false]);
    expect(pool.listening).toEqual([]);
  });

  test("notices when notifications do not come through, and says what to do", async () => {
    const logger = new RecordingLogger();
    const changes: boolean[] = [];
    const pool = new DeafPool(database.pool);
    const events = { notified: () => {}, changed: (listening: boolean) => void changes.push(listening) };
    const listener = new Listener(pool, logger, events, 50);
    listener.start();
    await logger.untilLine(/notifications \(until then queues are polled\) fail/);
    expect(logger.all[0]!.fields.error).toMatchObject({ message: expect.stringContaining("pooler") });
    expect(listener.listening).toBe(false);
    expect(changes).toEqual([]);
    expect(pool.listening).toEqual([]);
    await listener.stop();
  });

  test("can be stopped while it waits for a connection, which then goes back", async () => {
    const connecting = gate();
    const asked = gate();
    const back = gate();
    const pool = Object.assign(Object.create(database.pool) as typeof database.pool, {
      async connect() {
        asked.open();
        await connecting.passed;
        return { release: () => back.open() };
      },
    });
    const listener = new Listener(pool as never, new RecordingLogger(), { notified() {}, changed() {} });
    listener.start();
    await asked.passed;
    await listener.stop();
    connecting.open();
    await back.passed;
  });
});
