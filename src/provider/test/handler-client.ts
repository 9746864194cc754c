import type { ObjectValue, Provider, Value } from "../src/framework";
import { decodeMsgpack } from "../src/framework/codec/msgpack";
import type { Diagnostic, DynamicValue } from "../src/plugin/generated/tfplugin6";
import { ProviderService } from "../src/plugin/generated/tfplugin6";
import type { Call, ProviderHandler, Request, Response, Rpc } from "../src/plugin/handler";
import { providerHandler } from "../src/server/handler";
import { encodeValue } from "../src/server/wire-values";

const silent = { trace: () => {}, debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Calls a provider as Terraform does, without Terraform and the wire between: for what must happen between two calls. */
export class HandlerClient<C> {
  readonly handler: ProviderHandler;

  constructor(readonly provider: Provider<C>) {
    this.handler = providerHandler(provider);
  }

  ask<K extends Rpc>(
    rpc: K,
    fields: Partial<Request<K>> = {},
    signal = new AbortController().signal,
  ): Promise<Response<K>> {
    const request = { ...(ProviderService[rpc].requestDeserialize(Buffer.alloc(0)) as object), ...fields };
    const run = this.handler[rpc as Exclude<Rpc, "stopProvider">] as (r: unknown, call: Call) => Promise<Response<K>>;
    return run.call(this.handler, request, { signal, log: silent });
  }

  async configure(config: Record<string, Value>): Promise<void> {
    const { diagnostics } = await this.ask("configureProvider", {
      config: encodeValue(this.#whole(this.provider.schema.attributes, config), this.provider.schema.type),
      terraformVersion: "1.11.4",
    });
    if (diagnostics.length > 0) throw new Error(JSON.stringify(diagnostics));
  }

  /** A resource of a type, with plan and apply in steps of their own. */
  resource(typeName: string) {
    const { schema } = this.provider.resources.find((resource) => resource.typeName === typeName)!;
    const encode = (value: Value) => encodeValue(value, schema.type);
    const decode = (value: DynamicValue | undefined): ObjectValue | null =>
      value === undefined ? null : (decodeMsgpack(value.msgpack, schema.type) as ObjectValue | null);
    return {
      /** Null config = destroy. */
      plan: async (config: Record<string, Value> | null, prior: ObjectValue | null = null) => {
        const written = config === null ? null : this.#whole(schema.attributes, config);
        // As Terraform proposes: what is computed and not configured keeps its value.
        const proposed =
          written === null
            ? null
            : Object.fromEntries(Object.keys(written).map((name) => [name, written[name] ?? prior?.[name] ?? null]));
        const answer = await this.ask("planResourceChange", {
          typeName,
          config: encode(written),
          priorState: encode(prior),
          proposedNewState: encode(proposed),
        });
        return { written, prior, planned: decode(answer.plannedState), diagnostics: answer.diagnostics };
      },
      apply: async (
        plan: { written: ObjectValue | null; prior: ObjectValue | null; planned: ObjectValue | null },
        signal?: AbortSignal,
      ): Promise<{ state: ObjectValue | null; diagnostics: Diagnostic[] }> => {
        const fields = {
          config: encode(plan.written),
          priorState: encode(plan.prior),
          plannedState: encode(plan.planned),
        };
        const answer = await this.ask("applyResourceChange", { typeName, ...fields }, signal);
        return { state: decode(answer.newState), diagnostics: answer.diagnostics };
      },
    };
  }

  #whole(attributes: object, fields: Record<string, Value>): ObjectValue {
    return { ...Object.fromEntries(Object.keys(attributes).map((name) => [name, null])), ...fields };
  }
}
