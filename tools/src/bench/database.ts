import { installSchema } from "@workhorse/sql";
import { Client } from "pg";
import { startPostgres } from "../postgres";

/** Runs something on a PostgreSQL of its own, with the schema installed and commits as durable as in production. */
export async function withDatabase<T>(
  work: (connect: () => Promise<Client>, version: string, url: string) => Promise<T>,
): Promise<T> {
  const server = await startPostgres({ durable: true, settings: { shared_buffers: "512MB", max_wal_size: "4GB" } });
  const clients: Client[] = [];
  const connect = async (): Promise<Client> => {
    const client = new Client({ connectionString: server.url });
    await client.connect();
    clients.push(client);
    return client;
  };
  try {
    await installSchema(await connect());
    return await work(connect, server.version, server.url);
  } finally {
    await Promise.allSettled(clients.map((client) => client.end()));
    await server.stop();
  }
}
