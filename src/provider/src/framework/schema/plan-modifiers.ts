import { valuesEqual } from "../values/equal";
import type { Type, Value } from "../values/types";
import { Unknown } from "../values/unknown";

export interface PlanModifierContext {
  readonly type: Type;
  /** The attribute in the configuration; null when left out. */
  readonly config: Value;
  /** The attribute before; null when there was none. */
  readonly prior: Value;
  /** The attribute as planned so far. */
  readonly planned: Value;
  /** Whether the whole resource is being created. */
  readonly creating: boolean;
}

/** Changes what is planned for one attribute. */
export interface PlanModifier {
  /** For the documentation: "Changing it replaces the resource." */
  readonly description: string;
  modify(context: PlanModifierContext): { readonly planned?: Value; readonly requiresReplace?: boolean };
}

/** A change of the attribute replaces the resource. */
export function requiresReplace(): PlanModifier {
  return {
    description: "Changing it replaces the resource.",
    modify: ({ type, prior, planned, creating }) => ({
      requiresReplace: !creating && !valuesEqual(type, prior, planned),
    }),
  };
}

/** An attribute that the provider computes once and that no update changes keeps its value in plans. */
export function useStateForUnknown(): PlanModifier {
  return {
    description: "",
    modify: ({ config, prior, planned, creating }) =>
      !creating && planned instanceof Unknown && config === null && prior !== null ? { planned: prior } : {},
  };
}
