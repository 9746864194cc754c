import { existsSync, statSync } from "node:fs";
import { connect } from "node:net";
import { dirname } from "node:path";
import { afterEach, describe, expect, test } from "@jest/globals";
import { cuttableProxy } from "../../test/proxy";
import { launchEnvironment, newClientCertificate, readHandshake, WireClient } from "../../test/wire-client";
import type { ServerCertificate } from "./certificate";
import { ProviderService } from "./generated/tfplugin6";
import { type Call, type ProviderHandler, type Rpc, response } from "./handler";
import { HandshakeError } from "./handshake";
import { type RunningPlugin, type ServeOptions, serve, serveForDebugging } from "./serve";

const certificate = newClientCertificate();
const running: RunningPlugin[] = [];
const clients: WireClient[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await Promise.all(running.splice(0).map((plugin) => plugin.stop("the test ended")));
});

async function start(handler: ProviderHandler, options: Partial<ServeOptions> = {}) {
  let stdout = "";
  let stderr = "";
  const plugin = await serve({
    load: () => handler,
    env: launchEnvironment(certificate),
    stdout: { write: (text: string) => (stdout += text) },
    stderr: { write: (text: string) => (stderr += text) },
    ...options,
  });
  running.push(plugin);
  const handshake = readHandshake(stdout);
  const client = (own: ServerCertificate | null = certificate) => {
    const made = WireClient.connect(handshake, own);
    clients.push(made);
    return made;
  };
  return { plugin, handshake, client, stdout: () => stdout, stderr: () => stderr };
}

describe("serving a plugin", () => {
  test("prints one line, on which Terraform finds a socket that only this user may enter", async () => {
    const { handshake, stdout } = await start({});
    expect(handshake.network).toBe("unix");
    expect(statSync(dirname(handshake.address)).mode & 0o777).toBe(0o700);
    expect(stdout().match(/\n/g)).toHaveLength(1);
  });

  test("where its folder for sockets does not exist, it takes another", async () => {
    const { handshake, client } = await start(
      {},
      { env: launchEnvironment(certificate, { PLUGIN_UNIX_SOCKET_DIR: "/does/not/exist" }) },
    );
    expect(handshake.address).not.toContain("/does/not");
    await client().health("plugin");
  });

  test.each([
    ["an older protocol alone", { PLUGIN_PROTOCOL_VERSIONS: "4,5" }, /"4,5".*speaks version 6/],
    ["no client certificate", { PLUGIN_CLIENT_CERT: undefined }, /PLUGIN_CLIENT_CERT is not set/],
  ])("refuses to serve %s", async (_name, env, message) => {
    const stdout: string[] = [];
    const options = {
      load: () => ({}),
      stdout: { write: (text: string) => stdout.push(text) },
      stderr: { write: () => {} },
    };
    const launch = serve({ ...options, env: launchEnvironment(certificate, env) });
    await expect(launch).rejects.toThrow(HandshakeError);
    await expect(launch).rejects.toThrow(message);
    expect(stdout).toEqual([]);
  });

  test("lets in the one client, and nobody else", async () => {
    const { client, handshake } = await start({});
    await expect(client(null).health("plugin")).rejects.toMatchObject({ code: 14 });
    await expect(client(newClientCertificate()).health("plugin")).rejects.toMatchObject({ code: 14 });
    const plain = WireClient.connectPlain(handshake.address);
    clients.push(plain);
    await expect(plain.health("plugin")).rejects.toMatchObject({ code: 14 });
    await expect(client().health("plugin")).resolves.toEqual({ status: 1 });
    await expect(client().health("other")).rejects.toMatchObject({ code: 5 });
  });

  const unary = (Object.keys(ProviderService) as Rpc[]).filter((rpc) => !ProviderService[rpc].responseStream);
  const streaming = (Object.keys(ProviderService) as Rpc[]).filter((rpc) => ProviderService[rpc].responseStream);

  test("answers every call of the protocol, also those that are not offered", async () => {
    const { client } = await start({});
    const wire = client();
    for (const rpc of unary.filter((name) => name !== "stopProvider")) {
      expect([rpc, JSON.stringify(await wire.provider(rpc))]).toEqual([rpc, expect.stringMatching(/[Nn]ot offer/)]);
    }
    for (const rpc of streaming) {
      expect([rpc, JSON.stringify(await wire.stream(rpc))]).toEqual([rpc, expect.stringMatching(/[Nn]ot offer/)]);
    }
    await expect(wire.provider("stopProvider")).resolves.toEqual({ Error: "" });
  });

  test("an exception in a handler, or a response that cannot be written, becomes an error of that call", async () => {
    const secret = "postgres://user:hunter2@host";
    const failing = Object.fromEntries(
      (Object.keys(ProviderService) as Rpc[]).map((rpc) => [
        rpc,
        () => {
          throw new RangeError(secret);
        },
      ]),
    ) as unknown as ProviderHandler;
    const { client, stderr } = await start({
      ...failing,
      readResource: async () => ({ diagnostics: 1 }) as never,
      listResource: async function* () {
        yield response("listResource", { displayName: "one" });
        throw new RangeError(secret);
      },
    });
    const wire = client();
    for (const rpc of unary.filter((name) => name !== "stopProvider" && name !== "readResource")) {
      const answer = JSON.stringify(await wire.provider(rpc));
      expect([rpc, answer]).toEqual([rpc, expect.stringContaining("RangeError")]);
      expect(answer).not.toContain("hunter2");
    }
    expect(JSON.stringify(await wire.provider("readResource"))).toContain("TypeError");
    const events = JSON.stringify(await wire.stream("listResource"));
    expect(events).toMatch(/"one".*RangeError/);
    // The log says where it broke, and nothing that an exception may quote.
    expect(stderr()).toContain("serve.test.ts");
    expect(stderr()).not.toContain("hunter2");
  });

  test("takes messages of any size", async () => {
    const { client } = await start({
      async validateResourceConfig({ config }) {
        return response("validateResourceConfig", {
          diagnostics: [{ severity: 2, summary: "size", detail: "x".repeat(config?.msgpack.length ?? 0) }],
        });
      },
    });
    const config = { msgpack: Buffer.alloc(12_000_000), json: Buffer.alloc(0) };
    const answer = await client().provider("validateResourceConfig", { config });
    expect(answer.diagnostics[0]?.detail).toHaveLength(12_000_000);
  });

  /** A handler whose calls wait until they are aborted. */
  function waiting() {
    const calls: Call[] = [];
    let started: (call: Call) => void = () => {};
    const handler: ProviderHandler = {
      readDataSource: (_request, call) => {
        calls.push(call);
        started(call);
        return new Promise((resolve) => {
          call.signal.addEventListener("abort", () => {
            const detail = (call.signal.reason as Error).message;
            resolve(response("readDataSource", { diagnostics: [{ severity: 1, summary: "aborted", detail }] }));
          });
        });
      },
    };
    const next = () => new Promise<Call>((resolve) => (started = resolve));
    return { handler, calls, next };
  }

  test("StopProvider aborts what runs, and what comes after is served", async () => {
    const { handler, next } = waiting();
    const { client } = await start(handler);
    const wire = client();
    const begun = next();
    const read = wire.provider("readDataSource");
    await begun;
    await wire.provider("stopProvider");
    expect((await read).diagnostics[0]?.detail).toMatch(/asked the provider to stop/);
    const again = next();
    const second = wire.provider("readDataSource");
    expect((await again).signal.aborted).toBe(false);
    await wire.provider("stopProvider");
    await second;
  });

  test("a cancelled call's signal aborts", async () => {
    const { handler, next } = waiting();
    const { client } = await start(handler);
    const begun = next();
    const cancel = new AbortController();
    const read = client().provider("readDataSource", {}, cancel.signal);
    const { signal } = await begun;
    const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
    cancel.abort();
    await expect(read).rejects.toMatchObject({ code: 1 });
    await aborted;
  });

  test("Shutdown closes the provider, removes the socket and ends", async () => {
    let closed = 0;
    const { client, plugin, handshake } = await start({
      close: async () => {
        closed += 1;
      },
    });
    const wire = client();
    await expect(wire.shutdown()).resolves.toEqual({});
    wire.close();
    await plugin.ended;
    expect(closed).toBe(1);
    expect(existsSync(dirname(handshake.address))).toBe(false);
  });

  test("ends when its client goes away, and aborts what that was waiting for", async () => {
    const { handler, next, calls } = waiting();
    const { plugin, handshake } = await start(handler, { idleTimeoutMs: 1 });
    const proxy = await cuttableProxy(handshake.address);
    const wire = WireClient.connect({ ...handshake, address: proxy.address }, certificate);
    clients.push(wire);
    const begun = next();
    const read = wire.provider("readDataSource");
    await begun;
    // As the kernel does for a process that was killed: without any goodbye.
    await proxy.cut();
    await expect(read).rejects.toMatchObject({ code: 14 });
    await plugin.ended;
    expect(calls[0]?.signal.aborted).toBe(true);
    expect(existsSync(dirname(handshake.address))).toBe(false);
  });

  test("ends when nobody ever connects", async () => {
    const { plugin, handshake } = await start({}, { connectTimeoutMs: 1 });
    await plugin.ended;
    expect(existsSync(handshake.address)).toBe(false);
  });

  test("survives garbage on its socket", async () => {
    const { client, handshake } = await start({});
    const wire = client();
    await wire.health("plugin");
    await new Promise<void>((resolve) => {
      const socket = connect(handshake.address, () => socket.end("GET / HTTP/1.1\r\n\r\n"));
      socket.on("error", () => {});
      socket.on("close", () => resolve());
      socket.resume();
    });
    await expect(wire.health("plugin")).resolves.toEqual({ status: 1 });
  });

  test("logs what TF_LOG asks for, in the lines that Terraform reads", async () => {
    const { client, stderr } = await start({}, { env: launchEnvironment(certificate, { TF_LOG: "TRACE" }) });
    await client().provider("getMetadata");
    const lines = stderr()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines[0]).toEqual({
      "@level": "trace",
      "@message": "call started",
      "@module": "provider",
      "@timestamp": expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
      rpc: "getMetadata",
    });
  });

  test("for debugging it prints how to attach, and serves without TLS", async () => {
    let stdout = "";
    const plugin = await serveForDebugging("registry.terraform.io/acme/toy", {
      load: () => ({}),
      env: {},
      stdout: { write: (text: string) => (stdout += text) },
      stderr: { write: () => {} },
    });
    running.push(plugin);
    const match = /^TF_REATTACH_PROVIDERS='(.*)'\n$/.exec(stdout);
    const entry = JSON.parse(match![1]!)["registry.terraform.io/acme/toy"];
    expect(entry).toMatchObject({ Protocol: "grpc", ProtocolVersion: 6, Pid: process.pid, Test: true });
    const client = WireClient.connectPlain(entry.Addr.String);
    clients.push(client);
    await expect(client.health("plugin")).resolves.toEqual({ status: 1 });
  });
});
