import { bounds } from "@workhorse/sql";
import { attribute, attributeStep, between, formatPath, isKnown, type ObjectOf } from "../framework";
import type { PolicyKind } from "./kind";

const { min, max } = bounds.maxActive;
const range = `${min.toLocaleString("en-US")} to ${max.toLocaleString("en-US")}`;

const attributes = {
  max_active: attribute.integer({
    required: true,
    description: `How many jobs of the queue may be active at once, ${range}.`,
    validators: [between(min, max)],
  }),
  max_active_per_key: attribute.integer({
    optional: true,
    description:
      "How many jobs of each concurrency key may be active at once, 1 to `max_active`. Left out: no cap per key.",
    validators: [between(min, max)],
  }),
};

type Policy = ObjectOf<typeof attributes, "plan">;
type KnownPolicy = ObjectOf<typeof attributes, "state">;

export const concurrency: PolicyKind = {
  name: "concurrency",
  attributes,
  validate(policy, queue, path, diagnostics) {
    const { max_active: maxActive, max_active_per_key: perKey } = policy as Policy;
    if (!isKnown(maxActive) || !isKnown(perKey) || perKey === null || perKey <= maxActive) return;
    const at = attributeStep(path, "max_active_per_key");
    diagnostics.error(
      `Invalid value for ${formatPath(at)}`,
      `Got ${perKey} for queue ${JSON.stringify(queue)}; accepted is a whole number from 1 to max_active, which is ${maxActive}.`,
      at,
    );
  },
  warn: () => {},
  lock: (queue, executor) => queue.lockConcurrencyPolicies(executor),
  async list(queue, { queues, namespace }) {
    const found = await queue.listConcurrencyPolicies(queues, namespace === undefined ? {} : { namespace });
    return found.map((row) => ({
      queue: row.queue,
      namespace: row.namespace,
      updatedAt: row.updatedAt,
      policy: { max_active: row.maxActive, max_active_per_key: row.maxActivePerKey },
    }));
  },
  async sync(queue, namespace, policies, prune) {
    const definitions = [...(policies as ReadonlyMap<string, unknown> as ReadonlyMap<string, KnownPolicy>)].map(
      ([name, policy]) => ({
        queue: name,
        maxActive: policy.max_active,
        maxActivePerKey: policy.max_active_per_key,
      }),
    );
    await queue.syncConcurrencyPolicies(namespace, definitions, { prune });
  },
};
