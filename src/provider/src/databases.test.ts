import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSecureContext, TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import type { TerraformSandbox } from "@workhorse/tools";
import { type TestDatabase, testDatabase } from "../../../test/support/database";
import { testTerraform } from "../../../test/support/terraform";
import { FOREIGN_SQL } from "../test/foreign-sql";
import { HEAD } from "../test/support";
import { Database } from "./connection/database";
import { resolveSettings } from "./connection/settings";
import { createServerCertificate } from "./plugin/certificate";

const CONFIG = (limit: number, maxActive: number) => `${HEAD}
resource "workhorse_rate_limit_policies" "it" {
  namespace = "team"
  policies = {
    mail = {
      rate    = { limit = ${limit}, interval_ms = 1000, burst = 2 }
      per_key = { limit = 1, interval_ms = 1000, burst = 1 }
    }
  }
}
resource "workhorse_concurrency_policies" "it" {
  namespace = "team"
  policies  = { mail = { max_active = ${maxActive}, max_active_per_key = 1 } }
}
`;

describe("databases of others", () => {
  let terraform: TerraformSandbox;

  beforeAll(async () => {
    terraform = await testTerraform();
  });
  afterAll(() => terraform?.dispose());

  async function lifecycle(url: string, database: TestDatabase) {
    const workspace = await terraform.workspace({ "main.tf": CONFIG(5, 3) });
    const env = { WORKHORSE_DATABASE_URL: url };
    const run = async (...args: string[]) => {
      const result = await workspace.run([...args, "-input=false"], { env });
      return { code: result.code, text: result.text };
    };
    const stored = async () => {
      const rates = await database.pool.query(
        "SELECT queue_name q, rate_limit n FROM workhorse.rate_limit_policy ORDER BY 1",
      );
      const caps = await database.pool.query(
        "SELECT queue_name q, max_active n FROM workhorse.concurrency_policy ORDER BY 1",
      );
      return [...rates.rows, ...caps.rows].map(({ q, n }) => `${q}=${n}`);
    };
    await workspace.init();
    expect(await run("apply", "-auto-approve")).toMatchObject({ code: 0 });
    expect(await stored()).toEqual(["mail=5", "mail=3"]);
    expect(await run("plan", "-detailed-exitcode")).toMatchObject({ code: 0 });
    await workspace.write({ "main.tf": CONFIG(6, 4) });
    expect(await run("apply", "-auto-approve")).toMatchObject({ code: 0 });
    expect(await stored()).toEqual(["mail=6", "mail=4"]);
    return { workspace, run, stored };
  }

  test("one that has just the two tables and functions, made by whomever", async () => {
    const database = await testDatabase({ schema: false });
    try {
      await database.pool.query(FOREIGN_SQL);
      const { workspace, run, stored } = await lifecycle(database.url, database);
      await workspace.write({ "main.tf": CONFIG(666, 4) });
      const refused = await run("apply", "-auto-approve");
      expect(refused.code).toBe(1);
      expect(refused.text).toContain("The number of the beast is not welcome");
      expect(await stored()).toEqual(["mail=6", "mail=4"]);
      // These functions do not look at the owner; the provider does.
      await database.pool.query("UPDATE workhorse.rate_limit_policy SET namespace = 'other'");
      await workspace.write({ "main.tf": CONFIG(7, 4) });
      const owned = await run("apply", "-auto-approve");
      expect(owned.text).toContain('Queue "mail" is owned by namespace "other"');
      expect(await stored()).toEqual(["mail=6", "mail=4"]);
    } finally {
      await database.drop();
    }
  });

  test("one where the role may only change policies", async () => {
    const database = await testDatabase();
    try {
      const prefix = database.rolePrefix;
      await database.pool.query("SELECT workhorse.create_roles_v1($1)", [prefix]);
      await database.pool.query(`CREATE ROLE ${prefix}_login LOGIN PASSWORD 'pw' IN ROLE ${prefix}_policies`);
      const { workspace, run } = await lifecycle(database.urlFor(`${prefix}_login`, "pw"), database);
      await workspace.write({ "main.tf": `${HEAD} resource "workhorse_schema" "it" { on_destroy = "drop" }` });
      expect((await run("destroy", "-auto-approve")).code).toBe(0);
      await database.pool.query(`CREATE ROLE ${prefix}_nobody LOGIN PASSWORD 'pw'`);
      await workspace.write({ "main.tf": CONFIG(1, 1) });
      const url = database.urlFor(`${prefix}_nobody`, "pw");
      const refused = await workspace.run(["plan", "-input=false"], { env: { WORKHORSE_DATABASE_URL: url } });
      expect(refused.code).toBe(1);
      expect(refused.text).toMatch(/User ".*_nobody" may not do this at/);
      expect(refused.text).toContain("create_roles_v1()");
    } finally {
      await database.drop();
    }
  });
});

describe("sslmode", () => {
  const certificate = createServerCertificate();
  let database: TestDatabase;
  let proxy: Server;
  let folder: string;
  const sockets = new Set<Socket>();

  /** Ends TLS before the real server, as some poolers do. */
  beforeAll(async () => {
    database = await testDatabase();
    folder = await mkdtemp(join(tmpdir(), "tls-test-"));
    await writeFile(join(folder, "own.pem"), certificate.certificatePem);
    await writeFile(join(folder, "other.pem"), createServerCertificate().certificatePem);
    const { hostname, port } = new URL(database.url);
    const secureContext = createSecureContext({ cert: certificate.certificatePem, key: certificate.privateKeyPem });
    proxy = createServer((near) => {
      const far = connect(Number(port), hostname);
      for (const socket of [near, far]) {
        sockets.add(socket);
        socket.on("error", () => {});
        socket.on("close", () => sockets.delete(socket));
      }
      near.once("data", (request) => {
        const wantsTls = request.length === 8 && request.readInt32BE(4) === 80_877_103;
        if (!wantsTls) {
          // As pg_hba.conf's hostssl does.
          near.end(refusal("28000", "no pg_hba.conf entry, no encryption"));
          return;
        }
        near.write("S");
        const tls = new TLSSocket(near, { isServer: true, secureContext });
        tls.on("error", () => {});
        tls.pipe(far).pipe(tls);
      });
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  });
  afterAll(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => proxy.close(resolve));
    await rm(folder, { recursive: true });
    await database.drop();
  });

  function refusal(code: string, message: string): Buffer {
    const body = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`);
    const head = Buffer.alloc(5, "E");
    head.writeInt32BE(body.length + 4, 1);
    return Buffer.concat([head, body]);
  }

  async function attempt(toProxy: boolean, host: string, sslmode: string, root?: string): Promise<string> {
    const { username, password, pathname, port, hostname } = new URL(database.url);
    const { settings } = resolveSettings(
      {
        host: toProxy ? host : hostname,
        port: toProxy ? (proxy.address() as AddressInfo).port : Number(port),
        database: pathname.slice(1),
        username,
        password: decodeURIComponent(password),
        sslmode,
        sslRootCert: root === undefined ? undefined : join(folder, root),
      },
      {},
      { connectMs: 10_000, statementMs: 10_000, lockMs: 10_000 },
    );
    const client = new Database(settings);
    try {
      await client.transaction(new AbortController().signal, (executor) => executor.query("SELECT 1"));
      return "connected";
    } catch (error) {
      const { summary, detail } = error as { summary: string; detail: string };
      return `${summary}. ${detail}`;
    } finally {
      await client.close();
    }
  }

  const refusesPlain = /refused user/;
  const notTrusted = /TLS certificate is not accepted/;
  test.each<[mode: string, host: string, root: string | undefined, outcome: string | RegExp]>([
    ["disable", "127.0.0.1", undefined, refusesPlain],
    ["allow", "127.0.0.1", undefined, "connected"],
    ["prefer", "127.0.0.1", undefined, "connected"],
    ["require", "127.0.0.1", undefined, "connected"],
    ["require", "127.0.0.1", "other.pem", notTrusted],
    ["verify-ca", "127.0.0.1", "own.pem", "connected"],
    ["verify-ca", "127.0.0.1", "other.pem", notTrusted],
    ["verify-full", "localhost", "own.pem", "connected"],
    ["verify-full", "127.0.0.1", "own.pem", notTrusted],
    ["verify-full", "localhost", undefined, notTrusted],
  ])("%s to a server that wants TLS, as %s with root %s", async (mode, host, root, outcome) => {
    const result = await attempt(true, host, mode, root);
    if (typeof outcome === "string") expect(result).toBe(outcome);
    else expect(result).toMatch(outcome);
  });

  test.each<[mode: string, outcome: string | RegExp]>([
    ["disable", "connected"],
    ["allow", "connected"],
    ["prefer", "connected"],
    ["require", /does not speak TLS/],
    ["verify-full", /does not speak TLS/],
  ])("%s to a server that has no TLS", async (mode, outcome) => {
    const result = await attempt(false, "", mode);
    if (typeof outcome === "string") expect(result).toBe(outcome);
    else expect(result).toMatch(outcome);
  });
});
