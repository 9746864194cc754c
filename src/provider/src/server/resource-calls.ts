import {
  DiagnosticError,
  isWhollyKnown,
  type ObjectValue,
  type Path,
  type PrivateState,
  type Resource,
  type Type,
} from "../framework";
import { decodeJson } from "../framework/codec/json";
import { planSchema } from "../framework/schema/plan";
import { validateConfig } from "../framework/schema/validate";
import type { DynamicValue, ResourceIdentityData } from "../plugin/generated/tfplugin6";
import { type ProviderHandler, response } from "../plugin/handler";
import type { Session } from "./session";
import { identityType } from "./wire-schema";
import { decodeValue, encodeValue, wirePath } from "./wire-values";

type ResourceCalls = Pick<
  ProviderHandler,
  | "validateResourceConfig"
  | "upgradeResourceState"
  | "upgradeResourceIdentity"
  | "readResource"
  | "planResourceChange"
  | "applyResourceChange"
  | "importResourceState"
  | "moveResourceState"
>;

class PrivateBox implements PrivateState {
  constructor(public bytes: Buffer) {}
  get(): Uint8Array {
    return this.bytes;
  }
  set(bytes: Uint8Array): void {
    this.bytes = Buffer.from(bytes);
  }
}

/** The calls about managed resources: each decodes, calls the resource once, and encodes. */
export function resourceCalls<C>(session: Session<C>): Required<ResourceCalls> {
  const byName = new Map<string, Resource<C>>();
  for (const resource of session.provider.resources) byName.set(resource.typeName, resource);
  const find = (typeName: string): Resource<C> => {
    const resource = byName.get(typeName);
    if (resource === undefined) {
      throw DiagnosticError.of("Unknown resource type", `This provider has no resource type "${typeName}".`);
    }
    return resource;
  };
  const decodeNullable = (type: Type, value: DynamicValue | undefined) =>
    decodeValue(value, type) as ObjectValue | null;
  const decode = (type: Type, value: DynamicValue | undefined) => decodeValue(value, type) as ObjectValue;
  const identity = (resource: Resource<C>, state: ObjectValue | null): ResourceIdentityData | undefined =>
    resource.identity === undefined || resource.identityOf === undefined || state === null
      ? undefined
      : { identityData: encodeValue(resource.identityOf(state), identityType(resource.identity)) };
  /** The identity of a planned state, if what it is made of is known already. */
  const plannedIdentity = (resource: Resource<C>, planned: ObjectValue): ResourceIdentityData | undefined => {
    const found = resource.identity === undefined ? undefined : resource.identityOf?.(planned);
    if (found === undefined || !isWhollyKnown(found)) return undefined;
    return { identityData: encodeValue(found, identityType(resource.identity!)) };
  };

  return {
    async validateResourceConfig(request, call) {
      const { diagnostics } = await session.attempt(call, async (context) => {
        const resource = find(request.typeName);
        const config = decode(resource.schema.type, request.config);
        context.diagnostics.add(...validateConfig(resource.schema, config));
        if (!context.diagnostics.hasErrors) await resource.validate?.({ ...context, config });
      });
      return response("validateResourceConfig", { diagnostics });
    },

    async upgradeResourceState(request, call) {
      const { result, diagnostics } = await session.attempt(call, async (context) => {
        const resource = find(request.typeName);
        const json = request.rawState?.json.toString("utf8") ?? "";
        if (json === "") {
          throw DiagnosticError.of(
            `State of ${request.typeName} is too old`,
            "It was written by a Terraform before 0.12. Apply once with a Terraform of that time.",
          );
        }
        const { version } = resource.schema;
        if (request.version > version) {
          throw DiagnosticError.of(
            `State of ${request.typeName} is newer than the provider`,
            `The state has schema version ${request.version}; this provider knows up to ${version}. Upgrade the provider.`,
          );
        }
        if (request.version === version)
          return encodeValue(decodeJson(json, resource.schema.type), resource.schema.type);
        const upgrader = resource.upgraders?.[request.version];
        if (upgrader === undefined) {
          throw DiagnosticError.of(
            `State of ${request.typeName} cannot be upgraded`,
            `The state has schema version ${request.version}, from which this provider has no way to version ${version}.`,
          );
        }
        const state = decodeJson(json, upgrader.priorType) as ObjectValue;
        return encodeValue(await upgrader.upgrade({ ...context, state }), resource.schema.type);
      });
      return response("upgradeResourceState", { upgradedState: result, diagnostics });
    },

    async upgradeResourceIdentity(request, call) {
      const { result, diagnostics } = await session.attempt(call, () => {
        const resource = find(request.typeName);
        const current = resource.identity?.version ?? 0;
        if (resource.identity === undefined || request.version !== current) {
          throw DiagnosticError.of(
            `Identity of ${request.typeName} cannot be upgraded`,
            `It has version ${request.version}; this provider knows ${resource.identity ? `version ${current}` : "none"}.`,
          );
        }
        const type = identityType(resource.identity);
        return {
          identityData: encodeValue(decodeJson(request.rawIdentity?.json.toString("utf8") ?? "null", type), type),
        };
      });
      return response("upgradeResourceIdentity", { upgradedIdentity: result, diagnostics });
    },

    async readResource(request, call) {
      const privateState = new PrivateBox(request.private);
      const { result, diagnostics } = await session.attempt(call, async (context) => {
        const resource = find(request.typeName);
        const state = decode(resource.schema.type, request.currentState);
        const found = await resource.read({ ...session.withClient(context), state, privateState });
        return { newState: encodeValue(found, resource.schema.type), newIdentity: identity(resource, found) };
      });
      // After a failure the state that was known still stands.
      const kept = result ?? { newState: request.currentState, newIdentity: request.currentIdentity };
      return response("readResource", { ...kept, diagnostics, private: privateState.bytes });
    },

    async planResourceChange(request, call) {
      const privateState = new PrivateBox(request.priorPrivate);
      const { result, diagnostics } = await session.attempt(call, async (context) => {
        const resource = find(request.typeName);
        const prior = decodeNullable(resource.schema.type, request.priorState);
        const proposed = decodeNullable(resource.schema.type, request.proposedNewState);
        if (proposed === null) {
          if (prior !== null) await resource.planDelete?.({ ...session.withClient(context), prior });
          return {
            plannedState: encodeValue(null, resource.schema.type),
            requiresReplace: [],
            plannedIdentity: request.priorIdentity,
          };
        }
        const config = decode(resource.schema.type, request.config);
        const plan = planSchema(resource.schema, config, prior, proposed);
        const replaced: Path[] = [...plan.requiresReplace];
        let planned = plan.planned;
        if (resource.plan !== undefined) {
          planned = (await resource.plan({
            ...session.withClient(context),
            config,
            prior,
            planned,
            privateState,
            replace: (path) => replaced.push(path),
          })) as ObjectValue;
        }
        return {
          plannedState: encodeValue(planned, resource.schema.type),
          requiresReplace: replaced.map(wirePath),
          plannedIdentity: plannedIdentity(resource, planned) ?? request.priorIdentity,
        };
      });
      return response("planResourceChange", {
        ...(result ?? { plannedState: request.priorState }),
        diagnostics,
        plannedPrivate: privateState.bytes,
      });
    },

    async applyResourceChange(request, call) {
      const privateState = new PrivateBox(request.plannedPrivate);
      const { result, failed, diagnostics } = await session.attempt(call, async (context) => {
        const resource = find(request.typeName);
        const prior = decodeNullable(resource.schema.type, request.priorState);
        const planned = decodeNullable(resource.schema.type, request.plannedState);
        const client = session.withClient(context);
        if (planned === null) {
          if (prior !== null) await resource.delete({ ...client, prior });
          // A delete that said it failed has not deleted.
          const left = context.diagnostics.hasErrors ? prior : null;
          return { newState: encodeValue(left, resource.schema.type), newIdentity: identity(resource, left) };
        }
        const config = decode(resource.schema.type, request.config);
        const common = { ...client, config, planned, privateState };
        if (prior === null) {
          const created = await resource.create(common);
          return { newState: encodeValue(created, resource.schema.type), newIdentity: identity(resource, created) };
        }
        const state = await resource.update({ ...common, prior });
        return { newState: encodeValue(state, resource.schema.type), newIdentity: identity(resource, state) };
      });
      const kept = result ?? { newState: request.priorState, newIdentity: request.plannedIdentity };
      const bytes = failed && result === undefined ? request.plannedPrivate : privateState.bytes;
      return response("applyResourceChange", { ...kept, diagnostics, private: bytes });
    },

    async importResourceState(request, call) {
      const { result, diagnostics } = await session.attempt(call, async (context) => {
        const resource = find(request.typeName);
        if (resource.import === undefined) {
          throw DiagnosticError.of(
            "Import is not offered",
            `The resource type ${request.typeName} cannot be imported.`,
          );
        }
        const given = request.identity?.identityData;
        if (given !== undefined && resource.identity === undefined) {
          throw DiagnosticError.of("No identity", `The resource type ${request.typeName} is imported by its id.`);
        }
        const target =
          given === undefined
            ? { id: request.id }
            : { identity: decodeValue(given, identityType(resource.identity!)) as ObjectValue };
        const state = await resource.import({ ...session.withClient(context), target });
        if (context.diagnostics.hasErrors || state === null) return [];
        return [
          {
            typeName: request.typeName,
            state: encodeValue(state as ObjectValue, resource.schema.type),
            private: Buffer.alloc(0),
            identity: identity(resource, state as ObjectValue),
          },
        ];
      });
      return response("importResourceState", { importedResources: result ?? [], diagnostics });
    },

    async moveResourceState(request, call) {
      const { result, diagnostics } = await session.attempt(call, async (context) => {
        const resource = find(request.targetTypeName);
        const source = {
          providerAddress: request.sourceProviderAddress,
          typeName: request.sourceTypeName,
          schemaVersion: request.sourceSchemaVersion,
          json: request.sourceState?.json.toString("utf8") ?? "",
        };
        const state: ObjectValue | undefined = await resource.move?.({ ...context, source });
        if (state === undefined) {
          throw DiagnosticError.of(
            "Move is not offered",
            `A ${source.typeName} of ${source.providerAddress} cannot become a ${request.targetTypeName}.`,
          );
        }
        return { targetState: encodeValue(state, resource.schema.type), targetIdentity: identity(resource, state) };
      });
      return response("moveResourceState", { ...result, diagnostics });
    },
  };
}
