import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { cuttableProxy } from "../test/proxy";
import { launchEnvironment, newClientCertificate, readHandshake, WireClient } from "../test/wire-client";

/** What `npm run build` leaves. */
const PROVIDER = resolve(__dirname, "../../../dist/terraform-provider-workhorse");

const certificate = newClientCertificate();

describe("the provider's process", () => {
  let folder: string;
  let child: ChildProcess | undefined;
  const clients: WireClient[] = [];

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "main-test-"));
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    child = undefined;
    await rm(folder, { recursive: true });
  });

  function run(env: NodeJS.ProcessEnv, ...args: string[]) {
    const started = spawn(process.execPath, [PROVIDER, ...args], {
      env: { PATH: process.env.PATH, TMPDIR: folder, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    child = started;
    const output = { stdout: "", stderr: "" };
    started.stdout.on("data", (data) => {
      output.stdout += data;
    });
    started.stderr.on("data", (data) => {
      output.stderr += data;
    });
    const exit = once(started, "close").then(([code]) => code as number | null);
    return { process: started, output, exit };
  }

  async function launch() {
    const started = run(launchEnvironment(certificate));
    await once(started.process.stdout!, "data");
    const handshake = readHandshake(started.output.stdout);
    const connect = (address = handshake.address) => {
      const client = WireClient.connect({ ...handshake, address }, certificate);
      clients.push(client);
      return client;
    };
    return { ...started, handshake, connect };
  }

  test("started by a person, it says what it is and what to do", async () => {
    const { exit, output } = run({});
    expect(await exit).toBe(1);
    expect(output.stderr).toMatch(/plugin that Terraform starts by itself[\s\S]*required_providers/);
    expect(output.stdout).toBe("");
  });

  test("started by a Terraform that is too old, it says so", async () => {
    const { exit, output } = run(launchEnvironment(certificate, { PLUGIN_PROTOCOL_VERSIONS: "5" }));
    expect(await exit).toBe(1);
    expect(output.stderr).toContain('offers the plugin protocol versions "5"');
  });

  test("outlives Ctrl-C, and ends when Terraform asks for it", async () => {
    const { process: provider, connect, exit } = await launch();
    const client = connect();
    await client.health("plugin");
    provider.kill("SIGINT");
    const schema = await client.provider("getProviderSchema");
    expect(Object.keys(schema.resourceSchemas)).toContain("workhorse_schema");
    await client.shutdown();
    client.close();
    expect(await exit).toBe(0);
    expect(await readdir(folder)).toEqual([]);
  });

  test("ends by itself when a killed Terraform leaves it alone", async () => {
    const { connect, exit, handshake } = await launch();
    const proxy = await cuttableProxy(handshake.address);
    await connect(proxy.address).provider("getMetadata");
    await proxy.cut();
    expect(await exit).toBe(0);
    expect(existsSync(dirname(handshake.address))).toBe(false);
  });

  test("ends on SIGTERM", async () => {
    const { process: provider, connect, exit } = await launch();
    await connect().health("plugin");
    provider.kill("SIGTERM");
    expect(await exit).toBe(0);
    expect(await readdir(folder)).toEqual([]);
  });

  test("with --debug it prints how to attach, and Ctrl-C ends it", async () => {
    const { process: provider, output, exit } = run({}, "--debug");
    await once(provider.stdout!, "data");
    expect(output.stdout).toMatch(/^TF_REATTACH_PROVIDERS='\{"registry.terraform.io\/workhorse\/workhorse":/);
    provider.kill("SIGINT");
    expect(await exit).toBe(0);
    expect(await readdir(folder)).toEqual([]);
  });
});
