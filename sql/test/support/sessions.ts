import type { Client } from "pg";
import { eventually } from "../../../test/support/eventually";
import { type Executor, rows } from "./calls";

/** The server's process of a connection. */
export async function backendOf(client: Client): Promise<number> {
  return (await rows(client, "SELECT pg_backend_pid() AS pid"))[0]!.pid;
}

/** Waits until so many of these backends wait for a lock. */
export async function untilWaiting(executor: Executor, pids: readonly number[], count = pids.length): Promise<void> {
  await eventually(`${count} of the backends ${pids} to wait for a lock`, async () => {
    const waiting = await rows(
      executor,
      "SELECT FROM pg_stat_activity WHERE pid = ANY ($1) AND wait_event_type = 'Lock'",
      [pids],
    );
    return waiting.length >= count;
  });
}

/** The payloads that come on the channel workhorse_jobs, from here on. */
export class Listener {
  private readonly payloads: string[] = [];

  private constructor(private readonly client: Client) {
    client.on("notification", ({ payload }) => this.payloads.push(payload ?? ""));
  }

  static async start(client: Client): Promise<Listener> {
    const listener = new Listener(client);
    await client.query("LISTEN workhorse_jobs");
    return listener;
  }

  /**
   * Those that came since last asked, sorted. Everything committed before the call has arrived: a server sends a session its
   * notifications before it says that it is ready for the next query, and in the order of their commits.
   */
  async taken(): Promise<string[]> {
    await this.client.query("SELECT 1");
    return this.payloads.splice(0).sort();
  }
}
