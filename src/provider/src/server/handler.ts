import {
  type DataSource,
  DiagnosticError,
  FunctionError,
  isWhollyKnown,
  type ObjectValue,
  type Provider,
  type Value,
} from "../framework";
import { validateConfig } from "../framework/schema/validate";
import { type ProviderHandler, response } from "../plugin/handler";
import { resourceCalls } from "./resource-calls";
import { Session } from "./session";
import { wireFunction, wireIdentitySchema, wireSchema } from "./wire-schema";
import { decodeValue, encodeValue } from "./wire-values";

/** The one way between a provider and the protocol: every call decodes, calls the provider once, and encodes. */
export function providerHandler<C>(provider: Provider<C>): ProviderHandler {
  const session = new Session(provider);
  const dataSources = new Map<string, DataSource<C>>();
  for (const dataSource of provider.dataSources) dataSources.set(dataSource.typeName, dataSource);
  const functions = new Map(provider.functions.map((declared) => [declared.name, declared]));
  const findDataSource = (typeName: string) => {
    const dataSource = dataSources.get(typeName);
    if (dataSource === undefined) {
      throw DiagnosticError.of("Unknown data source", `This provider has no data source "${typeName}".`);
    }
    return dataSource;
  };
  const serverCapabilities = {
    planDestroy: true,
    getProviderSchemaOptional: true,
    moveResourceState: provider.resources.some((resource) => resource.move !== undefined),
    generateResourceConfig: false,
  };
  const byName = <T, W>(items: readonly T[], name: (item: T) => string, wire: (item: T) => W) =>
    Object.fromEntries(items.map((item) => [name(item), wire(item)]));
  const wireFunctions = () => byName(provider.functions, (f) => f.name, wireFunction);

  return {
    ...resourceCalls(session),

    async getMetadata() {
      return response("getMetadata", {
        serverCapabilities,
        resources: provider.resources.map(({ typeName }) => ({ typeName })),
        dataSources: provider.dataSources.map(({ typeName }) => ({ typeName })),
        functions: provider.functions.map(({ name }) => ({ name })),
      });
    },

    async getProviderSchema() {
      return response("getProviderSchema", {
        provider: wireSchema(provider.schema),
        resourceSchemas: byName(
          provider.resources,
          (resource) => resource.typeName,
          (resource) => wireSchema(resource.schema),
        ),
        dataSourceSchemas: byName(
          provider.dataSources,
          (dataSource) => dataSource.typeName,
          (dataSource) => wireSchema(dataSource.schema),
        ),
        functions: wireFunctions(),
        serverCapabilities,
      });
    },

    async getResourceIdentitySchemas() {
      const identified = provider.resources.flatMap(({ typeName, identity }) =>
        identity === undefined ? [] : [[typeName, wireIdentitySchema(identity)] as const],
      );
      return response("getResourceIdentitySchemas", { identitySchemas: Object.fromEntries(identified) });
    },

    async validateProviderConfig(request, call) {
      const { diagnostics } = await session.attempt(call, async (context) => {
        const config = decodeValue(request.config, provider.schema.type) as ObjectValue;
        session.redactor.addSensitive(provider.schema.attributes, config);
        context.diagnostics.add(...validateConfig(provider.schema, config));
        if (!context.diagnostics.hasErrors) await provider.validate?.({ ...context, config: config });
      });
      return response("validateProviderConfig", { diagnostics });
    },

    async configureProvider(request, call) {
      const { diagnostics } = await session.attempt(call, async (context) => {
        const config = decodeValue(request.config, provider.schema.type) as ObjectValue;
        session.redactor.addSensitive(provider.schema.attributes, config);
        const client = await provider.configure({
          ...context,
          config: config,
          terraformVersion: request.terraformVersion,
          redact: (secret) => session.redactor.add(secret),
        });
        await session.adopt(client);
      });
      return response("configureProvider", { diagnostics });
    },

    async validateDataResourceConfig(request, call) {
      const { diagnostics } = await session.attempt(call, async (context) => {
        const dataSource = findDataSource(request.typeName);
        const config = decodeValue(request.config, dataSource.schema.type) as ObjectValue;
        context.diagnostics.add(...validateConfig(dataSource.schema, config));
        if (!context.diagnostics.hasErrors) await dataSource.validate?.({ ...context, config: config });
      });
      return response("validateDataResourceConfig", { diagnostics });
    },

    async readDataSource(request, call) {
      const { result, diagnostics } = await session.attempt(call, async (context) => {
        const dataSource = findDataSource(request.typeName);
        const config = decodeValue(request.config, dataSource.schema.type) as ObjectValue;
        const state = await dataSource.read({ ...session.withClient(context), config: config });
        return encodeValue(state, dataSource.schema.type);
      });
      return response("readDataSource", { state: result, diagnostics });
    },

    async getFunctions() {
      return response("getFunctions", { functions: wireFunctions() });
    },

    async callFunction(request, call) {
      let refusal: FunctionError | undefined;
      const { result, diagnostics } = await session.attempt(call, async () => {
        try {
          const declared = functions.get(request.name);
          if (declared === undefined) throw new FunctionError(`This provider has no function "${request.name}".`);
          const { parameters, variadic, returns } = declared;
          if (
            request.arguments.length < parameters.length ||
            (!variadic && request.arguments.length > parameters.length)
          ) {
            throw new FunctionError(
              `${declared.name} takes ${variadic ? "at least " : ""}${parameters.length} arguments, got ${request.arguments.length}.`,
            );
          }
          let waiting = false;
          const args: Value[] = request.arguments.map((argument, i) => {
            const parameter = parameters[i] ?? variadic!;
            const value = decodeValue(argument, parameter.type);
            if (value === null && !parameter.allowNull) throw new FunctionError(`${parameter.name} is null`, i);
            if (parameter.type.kind === "integer" && typeof value === "number" && !Number.isSafeInteger(value)) {
              throw new FunctionError(`${parameter.name}: got ${value}; accepted is a whole number`, i);
            }
            waiting ||= !parameter.allowUnknown && !isWhollyKnown(value);
            return value;
          });
          if (waiting) {
            throw new FunctionError("an argument is not yet known");
          }
          return encodeValue(await declared.run(args), returns);
        } catch (error) {
          if (!(error instanceof FunctionError)) throw error;
          refusal = error;
          return undefined;
        }
      });
      if (refusal !== undefined) {
        const text = session.redactor.redact(refusal.message);
        return response("callFunction", { error: { text, functionArgument: refusal.argument } });
      }
      const [problem] = diagnostics;
      if (problem !== undefined) {
        return response("callFunction", { error: { text: `${problem.summary}: ${problem.detail}` } });
      }
      return response("callFunction", { result });
    },

    close: () => session.close(),
  };
}
