import type { Attribute, Attributes, IdentitySchema, Parameter, ProviderFunction, Schema, Type } from "../framework";
import { t, typeToJson } from "../framework/values/types";
import {
  type ResourceIdentitySchema,
  Schema_Object_NestingMode,
  StringKind,
  type Schema_Attribute as WireAttribute,
  type FunctionMessage as WireFunction,
  type Function_Parameter as WireParameter,
  type Schema as WireSchema,
} from "../plugin/generated/tfplugin6";

const NESTING = {
  single: Schema_Object_NestingMode.SINGLE,
  list: Schema_Object_NestingMode.LIST,
  set: Schema_Object_NestingMode.SET,
  map: Schema_Object_NestingMode.MAP,
} as const;

export function wireSchema(schema: Schema): WireSchema {
  return {
    version: schema.version,
    block: {
      version: schema.version,
      attributes: wireAttributes(schema.attributes),
      blockTypes: [],
      description: schema.description,
      descriptionKind: StringKind.MARKDOWN,
      deprecated: schema.deprecated !== undefined,
      deprecationMessage: schema.deprecated ?? "",
    },
  };
}

function wireAttributes(attributes: Attributes): WireAttribute[] {
  return Object.entries(attributes).map(([name, attribute]) => wireAttribute(name, attribute));
}

function wireAttribute(name: string, attribute: Attribute): WireAttribute {
  const { nested, presence } = attribute;
  return {
    name,
    type: nested === undefined ? typeBytes(attribute.type) : Buffer.alloc(0),
    nestedType:
      nested === undefined
        ? undefined
        : { attributes: wireAttributes(nested.attributes), nesting: NESTING[nested.mode], minItems: 0, maxItems: 0 },
    description: attribute.description,
    required: presence === "required",
    optional: presence === "optional" || presence === "optional-computed" || presence === "default",
    computed: presence === "computed" || presence === "optional-computed" || presence === "default",
    sensitive: attribute.sensitive,
    descriptionKind: StringKind.MARKDOWN,
    deprecated: attribute.deprecated !== undefined,
    writeOnly: attribute.writeOnly,
    deprecationMessage: attribute.deprecated ?? "",
  };
}

export function wireIdentitySchema(identity: IdentitySchema): ResourceIdentitySchema {
  return {
    version: identity.version ?? 0,
    identityAttributes: Object.entries(identity.attributes).map(([name, attribute]) => ({
      name,
      type: typeBytes(attribute.type),
      requiredForImport: attribute.requiredForImport ?? true,
      optionalForImport: !(attribute.requiredForImport ?? true),
      description: attribute.description,
    })),
  };
}

/** The object type of an identity. */
export function identityType(identity: IdentitySchema): Type {
  return t.object(Object.fromEntries(Object.entries(identity.attributes).map(([name, { type }]) => [name, type])));
}

export function wireFunction(declared: ProviderFunction): WireFunction {
  return {
    parameters: declared.parameters.map(wireParameter),
    variadicParameter: declared.variadic === undefined ? undefined : wireParameter(declared.variadic),
    return: { type: typeBytes(declared.returns) },
    summary: declared.summary,
    description: declared.description,
    descriptionKind: StringKind.MARKDOWN,
    deprecationMessage: declared.deprecated ?? "",
  };
}

function wireParameter(parameter: Parameter): WireParameter {
  return {
    name: parameter.name,
    type: typeBytes(parameter.type),
    allowNullValue: parameter.allowNull ?? false,
    allowUnknownValues: parameter.allowUnknown ?? false,
    description: parameter.description,
    descriptionKind: StringKind.MARKDOWN,
  };
}

function typeBytes(type: Type): Buffer {
  return Buffer.from(JSON.stringify(typeToJson(type)), "utf8");
}
