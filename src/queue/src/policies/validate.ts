import { bounds } from "@workhorse/sql";
import { InvalidDefinitionError } from "../errors";
import { checkInteger, checkKeys, checkName, faultText, grouped, type Refuse, shown } from "../validation";
import type { ConcurrencyPolicyDefinition, Rate, RateLimitPolicyDefinition } from "./definitions";

/** How policies of a kind are called in errors. */
export type PolicyKind = "rate-limit" | "concurrency";

/**
 * What the SQL would refuse in the arguments of a sync, found earlier and with the attribute's path. Returns copies that
 * hold the known fields alone.
 *
 * @throws InvalidDefinitionError
 */
export function validateRateLimitDefinitions(namespace: unknown, definitions: unknown): RateLimitPolicyDefinition[] {
  return validateDefinitions("rate-limit", namespace, definitions, (definition, path, refuse) => {
    checkKeys<RateLimitPolicyDefinition>(definition, ["queue", "rate", "perKey"], path, refuse);
    return {
      queue: checkName(definition.queue, `${path}.queue`, refuse),
      rate: validateRate(definition.rate, `${path}.rate`, refuse),
      perKey: isNothing(definition.perKey) ? null : validateRate(definition.perKey, `${path}.perKey`, refuse),
    };
  });
}

/** @throws InvalidDefinitionError */
export function validateConcurrencyDefinitions(
  namespace: unknown,
  definitions: unknown,
): ConcurrencyPolicyDefinition[] {
  return validateDefinitions("concurrency", namespace, definitions, (definition, path, refuse) => {
    checkKeys<ConcurrencyPolicyDefinition>(definition, ["queue", "maxActive", "maxActivePerKey"], path, refuse);
    const queue = checkName(definition.queue, `${path}.queue`, refuse);
    const maxActive = checkInteger(definition.maxActive, bounds.maxActive, `${path}.maxActive`, refuse);
    if (isNothing(definition.maxActivePerKey)) return { queue, maxActive, maxActivePerKey: null };
    const perKeyPath = `${path}.maxActivePerKey`;
    const maxActivePerKey = checkInteger(definition.maxActivePerKey, bounds.maxActive, perKeyPath, refuse);
    if (maxActivePerKey > maxActive) {
      throw refuse({
        path: perKeyPath,
        got: `${maxActivePerKey}, above maxActive`,
        accepted: `an integer from 1 to maxActive, which is ${grouped(maxActive)}`,
      });
    }
    return { queue, maxActive, maxActivePerKey };
  });
}

/** Refusals of what stands beside the definitions in a sync. */
export function refuseSync(kind: PolicyKind, namespace?: string): Refuse {
  return (fault, options) =>
    new InvalidDefinitionError(
      `invalid ${kind} policies${namespace === undefined ? "" : ` of namespace ${shown(namespace)}`}: ` +
        `${faultText(fault)}. Nothing was written.`,
      { namespace, ...fault },
      options,
    );
}

function validateDefinitions<T extends { queue: string }>(
  kind: PolicyKind,
  namespace: unknown,
  definitions: unknown,
  validate: (definition: unknown, path: string, refuse: Refuse) => T,
): T[] {
  const owner = checkName(namespace, "namespace", refuseSync(kind));
  const refuse = refuseSync(kind, owner);
  const { max } = bounds.definitions;
  if (!Array.isArray(definitions) || definitions.length > max) {
    const got = Array.isArray(definitions) ? `an array of ${grouped(definitions.length)}` : shown(definitions);
    throw refuse({ path: "definitions", got, accepted: `an array of at most ${grouped(max)} definitions` });
  }
  const places = new Map<string, number>();
  // Array.from visits the holes of a sparse array too.
  return Array.from(definitions, (definition: unknown, index) => {
    const path = `definitions[${index}]`;
    const refuseIt = refuseDefinition(kind, owner, definition, index);
    const valid = validate(definition, path, refuseIt);
    const first = places.get(valid.queue);
    if (first !== undefined) {
      throw refuseIt({
        path: `${path}.queue`,
        got: `${shown(valid.queue)}, as in definitions[${first}]`,
        accepted: "each queue once",
      });
    }
    places.set(valid.queue, index);
    return valid;
  });
}

function refuseDefinition(kind: PolicyKind, namespace: string, definition: unknown, index: number): Refuse {
  return (fault, options) => {
    const named = (definition as { queue?: unknown } | null)?.queue;
    const queue = typeof named === "string" ? named : undefined;
    return new InvalidDefinitionError(
      `invalid ${kind} policy${queue === undefined ? "" : ` for queue ${shown(queue)}`} in namespace ${shown(namespace)}: ` +
        `${faultText(fault)}. Nothing was written.`,
      { namespace, queue, index, ...fault },
      options,
    );
  };
}

function validateRate(rate: unknown, path: string, refuse: Refuse): Rate {
  checkKeys<Rate>(rate, ["limit", "intervalMs", "burst"], path, refuse);
  return {
    limit: checkInteger(rate.limit, bounds.rateLimit, `${path}.limit`, refuse),
    intervalMs: checkInteger(rate.intervalMs, bounds.rateIntervalMs, `${path}.intervalMs`, refuse),
    burst: checkInteger(rate.burst, bounds.rateBurst, `${path}.burst`, refuse),
  };
}

const isNothing = (value: unknown): value is null | undefined => value === null || value === undefined;
