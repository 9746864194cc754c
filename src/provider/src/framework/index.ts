export type { Awaitable, ClientContext, Context, Log, PrivateState } from "./context";
export { type DataSource, type DataSourceDeclaration, defineDataSource } from "./data-source";
export { type Diagnostic, DiagnosticError, Diagnostics } from "./diagnostics";
export { defineFunction, FunctionError, type Parameter, type ProviderFunction } from "./function";
export { attributeStep, formatPath, indexStep, keyStep, type Path, type PathStep, pathOf } from "./path";
export { defineProvider, type Provider, type ProviderDeclaration } from "./provider";
export {
  defineResource,
  type IdentitySchema,
  type ImportTarget,
  type MoveSource,
  type Resource,
  type ResourceDeclaration,
  type StateUpgrader,
} from "./resource";
export { type Attribute, type Attributes, attribute } from "./schema/attributes";
export { type PlanModifier, requiresReplace, useStateForUnknown } from "./schema/plan-modifiers";
export {
  type ConfigOf,
  defineSchema,
  type KnownConfigOf,
  type ObjectOf,
  type PlannedOf,
  type PlanOf,
  type Schema,
  type StateOf,
} from "./schema/schema";
export { between, elements, keys, matches, oneOf, size, utf8Bytes, type Validator } from "./schema/validators";
export { Decimal, decimalOf, type Numeric, numeric } from "./values/decimal";
export { canonical, isWhollyKnown, valuesEqual } from "./values/equal";
export { Dynamic, type ObjectValue, type Type, t, type Value, type ValueOf } from "./values/types";
export { isKnown, type Refinement, Unknown, unknown } from "./values/unknown";
