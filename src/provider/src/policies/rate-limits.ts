import type { Rate } from "@workhorse/queue";
import { bounds } from "@workhorse/sql";
import { attribute, attributeStep, between, isKnown, type ObjectOf, t } from "../framework";
import type { PolicyKind } from "./kind";

const rateAttributes = (whose: string) => ({
  limit: attribute.integer({
    required: true,
    description: `Starts per interval that ${whose} may have, ${range(bounds.rateLimit)}.`,
    validators: [between(bounds.rateLimit.min, bounds.rateLimit.max)],
  }),
  interval_ms: attribute.integer({
    required: true,
    description: `The interval in milliseconds, ${range(bounds.rateIntervalMs)} (a day).`,
    validators: [between(bounds.rateIntervalMs.min, bounds.rateIntervalMs.max)],
  }),
  burst: attribute.integer({
    required: true,
    description: `Starts that an idle time saves up at most, ${range(bounds.rateBurst)}.`,
    validators: [between(bounds.rateBurst.min, bounds.rateBurst.max)],
  }),
});

function range({ min, max }: { min: number; max: number }): string {
  return `${min.toLocaleString("en-US")} to ${max.toLocaleString("en-US")}`;
}

const attributes = {
  rate: attribute.single(rateAttributes("all jobs of the queue together"), {
    required: true,
    description: "How fast jobs of the queue may start. Every start counts, retries included.",
  }),
  per_key: attribute.single(rateAttributes("the jobs of one concurrency key"), {
    optional: true,
    description: "How fast the jobs of each concurrency key may start, besides `rate`. Left out: no limit per key.",
  }),
};

/** A rate as Terraform has it. */
export const rateType = t.object({ limit: t.integer, interval_ms: t.integer, burst: t.integer });

type Policy = ObjectOf<typeof attributes, "plan">;
type KnownPolicy = ObjectOf<typeof attributes, "state">;

const toTerraform = ({ limit, intervalMs, burst }: Rate) => ({ limit, interval_ms: intervalMs, burst });
const fromTerraform = (rate: KnownPolicy["rate"]): Rate => ({
  limit: rate.limit,
  intervalMs: rate.interval_ms,
  burst: rate.burst,
});

export const rateLimits: PolicyKind = {
  name: "rate-limit",
  attributes,
  validate: () => {},
  warn(policy, queue, path, diagnostics) {
    const { rate, per_key: perKey } = policy as Policy;
    if (!isKnown(rate) || !isKnown(perKey) || perKey === null) return;
    const at = attributeStep(path, "per_key");
    const name = JSON.stringify(queue);
    const { limit, interval_ms: interval, burst } = perKey;
    if (!isKnown(rate.burst) || !isKnown(burst)) return;
    if (isKnown(rate.limit) && isKnown(rate.interval_ms) && isKnown(limit) && isKnown(interval)) {
      // Compared as rates, without dividing.
      if (limit * rate.interval_ms > rate.limit * interval) {
        diagnostics.warning(
          `The per_key rate of queue ${name} is above the queue's own`,
          `per_key allows ${limit} starts per ${interval} ms, rate only ${rate.limit} per ${rate.interval_ms} ms. ` +
            (burst >= rate.burst
              ? `As its burst (${burst}) is not below the queue's (${rate.burst}) either, per_key never holds a job back. `
              : `Only its burst (${burst}, the queue's is ${rate.burst}) ever holds a job back. `) +
            "Lower per_key, or leave it out.",
          at,
        );
        return;
      }
    }
    if (burst > rate.burst) {
      diagnostics.warning(
        `The per_key burst of queue ${name} is above the queue's own`,
        `per_key saves up ${burst} starts, rate only ${rate.burst}: no key can ever use more than the queue's burst. ` +
          `Lower the burst of per_key to ${rate.burst} or less.`,
        at,
      );
    }
  },
  lock: (queue, executor) => queue.lockRateLimitPolicies(executor),
  async list(queue, { queues, namespace }) {
    const found = await queue.listRateLimitPolicies(queues, namespace === undefined ? {} : { namespace });
    return found.map((row) => ({
      queue: row.queue,
      namespace: row.namespace,
      updatedAt: row.updatedAt,
      policy: { rate: toTerraform(row.rate), per_key: row.perKey === null ? null : toTerraform(row.perKey) },
    }));
  },
  async sync(queue, namespace, policies, prune) {
    const definitions = [...(policies as ReadonlyMap<string, unknown> as ReadonlyMap<string, KnownPolicy>)].map(
      ([name, policy]) => ({
        queue: name,
        rate: fromTerraform(policy.rate),
        perKey: policy.per_key === null ? null : fromTerraform(policy.per_key),
      }),
    );
    await queue.syncRateLimitPolicies(namespace, definitions, { prune });
  },
};
