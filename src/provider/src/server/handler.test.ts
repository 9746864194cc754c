import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { toyProvider } from "../../test/toy/provider";
import { type ObjectValue, type Type, t, type Value } from "../framework";
import { decodeMsgpack } from "../framework/codec/msgpack";
import type { DynamicValue } from "../plugin/generated/tfplugin6";
import { ProviderService } from "../plugin/generated/tfplugin6";
import { type Call, type ProviderHandler, type Request, type Response, type Rpc, response } from "../plugin/handler";
import { providerHandler } from "./handler";
import { encodeValue } from "./wire-values";

const silent = { trace: () => {}, debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const thing = toyProvider.resources[0]!;
const identityType = t.object({ id: t.string });

/** What the CLI at hand is too old to ask, or never asks, asked at the wire's level. */
describe("the adapter", () => {
  let dir: string;
  let handler: ProviderHandler;

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), "handler-test-"));
    handler = providerHandler(toyProvider);
  });
  afterEach(async () => {
    await handler.close?.();
    await rm(dir, { recursive: true });
  });

  function ask<K extends Rpc>(rpc: K, fields: Partial<Request<K>> = {}, signal = new AbortController().signal) {
    const request = { ...(ProviderService[rpc].requestDeserialize(Buffer.alloc(0)) as object), ...fields };
    const run = handler[rpc as Exclude<Rpc, "stopProvider">] as (request: unknown, call: Call) => Promise<Response<K>>;
    return run.call(handler, request, { signal, log: silent });
  }
  const configure = () =>
    ask("configureProvider", { config: encodeValue({ dir }, toyProvider.schema.type), terraformVersion: "1.12.0" });
  const decode = (value: DynamicValue | undefined, type: Type): Value =>
    value === undefined ? null : decodeMsgpack(value.msgpack, type);
  const config = (fields: Record<string, Value>): ObjectValue => ({
    ...Object.fromEntries(Object.keys(thing.schema.attributes).map((name) => [name, null])),
    ...fields,
  });
  const thingValue = (value: Value) => encodeValue(value, thing.schema.type);

  test("tells resource identities, and imports by them", async () => {
    const { identitySchemas } = await ask("getResourceIdentitySchemas");
    expect(identitySchemas.toy_thing).toMatchObject({
      version: 0,
      identityAttributes: [{ name: "id", requiredForImport: true, optionalForImport: false }],
    });
    await configure();
    await writeFile(join(dir, "thing-a.txt"), "a");
    const identity = { identityData: encodeValue({ id: "thing-a" }, identityType) };
    const imported = await ask("importResourceState", { typeName: "toy_thing", identity });
    expect(imported.diagnostics).toEqual([]);
    expect(decode(imported.importedResources[0]?.state, thing.schema.type)).toMatchObject({ id: "thing-a", name: "a" });
    expect(decode(imported.importedResources[0]?.identity?.identityData, identityType)).toMatchObject({
      id: "thing-a",
    });
    const raw = { json: Buffer.from('{"id": "thing-a"}'), flatmap: {} };
    const upgraded = await ask("upgradeResourceIdentity", { typeName: "toy_thing", version: 0, rawIdentity: raw });
    expect(decode(upgraded.upgradedIdentity?.identityData, identityType)).toMatchObject({ id: "thing-a" });
    const newer = await ask("upgradeResourceIdentity", { typeName: "toy_thing", version: 7, rawIdentity: raw });
    expect(newer.diagnostics[0]?.detail).toMatch(/has version 7; this provider knows version 0/);
  });

  test("an applied resource has its identity", async () => {
    await configure();
    const written = thingValue(config({ name: "a" }));
    const plan = await ask("planResourceChange", {
      typeName: "toy_thing",
      config: written,
      proposedNewState: written,
      priorState: thingValue(null),
    });
    expect(plan.plannedIdentity).toBeUndefined();
    const apply = await ask("applyResourceChange", {
      typeName: "toy_thing",
      config: written,
      plannedState: plan.plannedState,
      priorState: thingValue(null),
    });
    expect(apply.diagnostics).toEqual([]);
    expect(decode(apply.newIdentity?.identityData, identityType)).toMatchObject({ id: "thing-a" });
  });

  test("moves states of types that the resource knows", async () => {
    const sourceState = { json: Buffer.from('{"id": "thing-a", "name": "a"}'), flatmap: {} };
    const moved = await ask("moveResourceState", {
      sourceTypeName: "toy_old",
      targetTypeName: "toy_thing",
      sourceState,
    });
    expect(decode(moved.targetState, thing.schema.type)).toMatchObject({ name: "a" });
    const refused = await ask("moveResourceState", {
      sourceTypeName: "other",
      targetTypeName: "toy_thing",
      sourceState,
    });
    expect(refused.diagnostics[0]?.detail).toMatch(/A other of .* cannot become a toy_thing/);
  });

  test("asks to be configured first, and says what it does not know", async () => {
    const state = thingValue(config({ id: "x", name: "x" }));
    const unconfigured = await ask("readResource", { typeName: "toy_thing", currentState: state });
    expect(unconfigured.diagnostics[0]?.summary).toBe("The provider is not configured");
    // What was known still stands.
    expect(unconfigured.newState).toEqual(state);
    await configure();
    expect((await ask("readResource", { typeName: "none" })).diagnostics[0]?.detail).toContain(
      'no resource type "none"',
    );
    expect((await ask("readDataSource", { typeName: "none" })).diagnostics[0]?.detail).toContain(
      'no data source "none"',
    );
    expect((await ask("callFunction", { name: "none" })).error?.text).toContain('no function "none"');
    const few = await ask("callFunction", { name: "join", arguments: [] });
    expect(few.error?.text).toBe("join takes at least 1 arguments, got 0.");
  });

  test("bytes that are no value become an error where they stand", async () => {
    const broken = { msgpack: Buffer.from([0x81, 0xa4, 0x6e, 0x61, 0x6d, 0x65, 0xc3]), json: Buffer.alloc(0) };
    const answer = await ask("validateResourceConfig", { typeName: "toy_thing", config: broken });
    expect(answer.diagnostics[0]).toMatchObject({
      summary: "Unreadable value",
      detail: "name: expected string, got a bool",
    });
    expect(answer.diagnostics[0]?.attribute?.steps).toEqual([
      { selector: { $case: "attributeName", attributeName: "name" } },
    ]);
  });

  test("takes values as JSON too", async () => {
    const json = Buffer.from(JSON.stringify({ name: "a", rules: [{ port: 0 }] }));
    const answer = await ask("validateResourceConfig", {
      typeName: "toy_thing",
      config: { msgpack: Buffer.alloc(0), json },
    });
    expect(answer.diagnostics.map(({ summary }) => summary)).toEqual(["Invalid value for rules[0].port"]);
  });

  test("a call that was stopped says so", async () => {
    await configure();
    const stopped = AbortSignal.abort(new Error("Terraform asked the provider to stop"));
    const written = thingValue(config({ id: "a", name: "a" }));
    const apply = await ask(
      "applyResourceChange",
      { typeName: "toy_thing", config: written, plannedState: written, priorState: thingValue(null) },
      stopped,
    );
    expect(apply.diagnostics[0]).toMatchObject({
      summary: "Interrupted",
      detail: expect.stringContaining("asked the provider to stop"),
    });
  });

  test("describes everything it has, the same in both ways", async () => {
    const metadata = await ask("getMetadata");
    const schema = await ask("getProviderSchema");
    expect(metadata.resources.map(({ typeName }) => typeName)).toEqual(Object.keys(schema.resourceSchemas));
    expect(metadata.functions.map(({ name }) => name)).toEqual(Object.keys(schema.functions));
    expect((await ask("getFunctions")).functions).toEqual(schema.functions);
    expect(schema.serverCapabilities).toEqual(metadata.serverCapabilities);
    expect(schema.resourceSchemas.toy_thing?.version).toBe(1);
    const attributes = schema.resourceSchemas.toy_thing?.block?.attributes ?? [];
    const find = (name: string) => attributes.find((attribute) => attribute.name === name);
    expect(find("name")).toMatchObject({ required: true, optional: false, computed: false });
    expect(find("labels")).toMatchObject({
      required: false,
      optional: true,
      computed: true,
      type: Buffer.from('["map","string"]'),
    });
    expect(find("secret")).toMatchObject({ sensitive: true, writeOnly: true });
    expect(find("old")).toMatchObject({ deprecated: true, deprecationMessage: "Use settings." });
    expect(find("rules")?.nestedType).toMatchObject({ nesting: 2, attributes: [{ name: "port" }, { name: "note" }] });
    expect(response("getFunctions")).toEqual({ functions: {}, diagnostics: [] });
  });
});
