import { once } from "node:events";
import { existsSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { dirname } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "@jest/globals";
import { Client } from "pg";
import { withProgram } from "../../../test/support/child-program";
import { eventually } from "../../../test/support/eventually";
import { isGroupRunning, isRunning } from "../process";
import { findBinaries } from "./binaries";
import { freePort, type PostgresServer, startPostgres, startPostgresOn } from "./server";

describe("the embedded PostgreSQL", () => {
  /** One for the tests that leave it running as they found it. */
  let shared: PostgresServer;
  const servers: PostgresServer[] = [];
  beforeAll(async () => {
    shared = await startPostgres();
  });
  afterAll(() => shared?.stop());
  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  async function started(server: Promise<PostgresServer>): Promise<PostgresServer> {
    servers.push(await server);
    return server;
  }

  async function query(url: string, ...texts: string[]): Promise<Record<string, unknown>[]> {
    const client = new Client({ connectionString: url });
    await client.connect();
    try {
      let rows: Record<string, unknown>[] = [];
      for (const text of texts) {
        ({ rows } = await client.query(text));
      }
      return rows;
    } finally {
      await client.end();
    }
  }

  const settings = (server: PostgresServer, ...names: string[]) =>
    query(server.url, `SELECT ${names.map((name) => `current_setting('${name}') AS ${name}`).join(", ")}`);

  test("serves with defaults for tests, on 127.0.0.1 only, and with a password only", async () => {
    const server = shared;
    expect(await settings(server, "max_connections", "fsync", "synchronous_commit", "listen_addresses")).toEqual([
      { max_connections: "200", fsync: "off", synchronous_commit: "on", listen_addresses: "127.0.0.1" },
    ]);
    expect([server.major, server.version]).toEqual([18, expect.stringMatching(/^18\.\d+$/)]);
    for (const wrong of ["", "wrong"]) {
      await expect(query(server.urlFor("postgres", "postgres", wrong), "SELECT 1")).rejects.toThrow(/password/);
    }
    const socket = { host: server.socketDirectory!, port: server.port, user: "postgres", database: "postgres" };
    const client = new Client({ ...socket, password: server.password });
    await client.connect();
    await client.end();
    expect(statSync(server.socketDirectory!).mode & 0o777).toBe(0o700);
  });

  test("takes settings, whose values may hold quotes, and durability", async () => {
    const server = await started(
      startPostgres({ durable: true, settings: { work_mem: "5MB", cluster_name: "it's \\" } }),
    );
    expect(await settings(server, "fsync", "full_page_writes", "work_mem", "cluster_name")).toEqual([
      { fsync: "on", full_page_writes: "on", work_mem: "5MB", cluster_name: "it's \\" },
    ]);
  });

  test("two at once do not meet, and stopping leaves nothing", async () => {
    const both = await Promise.all([started(startPostgres()), started(startPostgres())]);
    expect(new Set(both.map(({ port }) => port)).size).toBe(2);
    expect(new Set(both.map(({ password }) => password)).size).toBe(2);
    const left = both.map(({ pid, socketDirectory }) => ({ pid: pid!, folder: dirname(socketDirectory!) }));
    await Promise.all(both.map((server) => Promise.all([server.stop(), server.stop()])));
    for (const { pid, folder } of left) {
      expect([await isRunning(pid), existsSync(folder)]).toEqual([false, false]);
    }
    await expect(both[0].restart()).rejects.toThrow("was stopped");
  });

  test("a crash loses no commit, and takes nothing else along", async () => {
    const server = shared;
    const pid = server.pid!;
    await query(server.url, "CREATE TABLE kept (id int)", "INSERT INTO kept VALUES (1)");
    const client = new Client({ connectionString: server.url });
    await client.connect();
    const cut = once(client, "error");
    await server.kill();
    await cut;
    expect([server.pid, await isRunning(pid)]).toEqual([undefined, false]);
    const { url } = server;
    await server.restart();
    expect(server.url).toBe(url);
    expect(await query(url, "SELECT id FROM kept")).toEqual([{ id: 1 }]);
  });

  test("tries another port when one was taken meanwhile", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as { port: number };
    try {
      const picks = [port, port, await freePort()];
      const server = await started(startPostgresOn(async () => picks.shift()!));
      expect([server.port !== port, picks]).toEqual([true, []]);
      await query(server.url, "SELECT 1");
    } finally {
      other.close();
      await once(other, "close");
    }
  });

  test("a restart that finds its port taken says so, and can be repeated", async () => {
    const server = shared;
    await server.kill();
    const other = createServer().listen(server.port, "127.0.0.1");
    await once(other, "listening");
    await expect(server.restart()).rejects.toThrow(`Port ${server.port} of 127.0.0.1 was taken`);
    other.close();
    await once(other, "close");
    await server.restart();
    await query(server.url, "SELECT 1");
  });

  test("a bad setting is an error with the server's own words", async () => {
    await expect(startPostgres({ settings: { no_such_setting: "1" } })).rejects.toThrow(
      /PostgreSQL 18\.\d+ ended at its start[\s\S]*unrecognized configuration parameter "no_such_setting"/,
    );
  });

  const PROGRAM = `
    import { dirname } from "node:path";
    import { startPostgres } from "./server";
    startPostgres({ binaries: BINARIES }).then((server) => {
      console.log(JSON.stringify({ pid: server.pid, folder: dirname(server.socketDirectory!) }));
      process.stdin.once("data", () => process.stdin.destroy());
    });
  `;

  test.each(["is killed", "ends without stopping it"])("leaves nothing when its process %s", async (how) => {
    const binaries = JSON.stringify(await findBinaries(18));
    await withProgram(__dirname, PROGRAM.replace("BINARIES", binaries), async (program) => {
      const { pid, folder } = JSON.parse(await program.line());
      expect(await isRunning(pid)).toBe(true);
      if (how === "is killed") {
        await program.kill();
      } else {
        program.process.stdin.write("end\n");
        await once(program.process, "exit");
      }
      await eventually("the folder to go", () => !existsSync(folder));
      expect(await isRunning(pid)).toBe(false);
    });
  });

  test("is out of Ctrl-C's reach, which goes to a whole process group", async () => {
    expect(await isGroupRunning(shared.pid!)).toBe(true);
  });
});
