import type { Path } from "../path";
import { valuesEqual } from "../values/equal";
import type { ObjectValue, Value } from "../values/types";
import { unknown } from "../values/unknown";
import type { Schema } from "./schema";
import { mapAttributes } from "./walk";

export interface SchemaPlan {
  readonly planned: ObjectValue;
  /** Attributes whose change replaces the resource. */
  readonly requiresReplace: readonly Path[];
}

/**
 * What the schema alone says about a change: defaults stand where the configuration has nothing; if anything then
 * differs from the prior state, whatever the provider computes becomes unknown; the attributes' plan modifiers follow.
 */
export function planSchema(
  schema: Schema,
  config: ObjectValue,
  prior: ObjectValue | null,
  proposed: ObjectValue,
): SchemaPlan {
  const { attributes, type } = schema;
  let planned = mapAttributes(attributes, proposed, [config], [], (attribute, value, [configured = null]) => {
    if (attribute.writeOnly) return null;
    return attribute.defaultValue !== undefined && configured === null ? attribute.defaultValue : value;
  });
  if (prior === null || !valuesEqual(type, prior, planned)) {
    planned = mapAttributes(attributes, planned, [config], [], ({ presence }, value, [configured = null]) =>
      (presence === "computed" || presence === "optional-computed") && configured === null ? unknown : value,
    );
  }
  const replace: Path[] = [];
  planned = mapAttributes(attributes, planned, [config, prior ?? undefined], [], (attribute, value, others, path) => {
    const [configured = null, before = null] = others;
    let result: Value = value;
    for (const modifier of attribute.planModifiers) {
      const outcome = modifier.modify({
        type: attribute.type,
        config: configured,
        prior: before,
        planned: result,
        creating: prior === null,
      });
      if (outcome.planned !== undefined) result = outcome.planned;
      if (outcome.requiresReplace) replace.push(path);
    }
    return result;
  });
  return { planned, requiresReplace: replace };
}
