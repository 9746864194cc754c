import { bounds } from "@workhorse/sql";
import { type Client, requireDatabase } from "../client";
import { attribute, type DataSource, defineDataSource, defineSchema, size, t } from "../framework";
import { concurrency } from "../policies/concurrency";
import { type PolicyKind, policyName } from "../policies/kind";
import { PolicyStore } from "../policies/namespace";
import { rateLimits } from "../policies/rate-limits";

/** A data source of persisted policies of one kind. */
function policies(kind: PolicyKind, typeName: string, description: string): DataSource<Client> {
  const schema = defineSchema({
    description,
    attributes: {
      namespace: attribute.string({
        optional: true,
        description: "Only the policies of this namespace. Left out: of all namespaces.",
        validators: [policyName],
      }),
      queues: attribute.of(t.set(t.string), {
        optional: true,
        description: "Only the policies of these queues. Left out: of all queues.",
        validators: [size(0, bounds.definitions.max)],
      }),
      policies: attribute.map(
        {
          namespace: attribute.string({ computed: true, description: "The owner." }),
          ...asComputed(kind),
          updated_at: attribute.string({
            computed: true,
            description: "When a value last changed, by PostgreSQL's clock: RFC 3339, in UTC.",
          }),
        },
        { computed: true, description: "The policies by queue." },
      ),
    },
  });

  return defineDataSource<Client, typeof schema>({
    typeName,
    schema,
    async read(context) {
      const { namespace, queues } = context.config;
      const rows = await new PolicyStore(kind, requireDatabase(context)).list(context.signal, {
        ...(namespace === null ? {} : { namespace }),
        ...(queues === null ? {} : { queues }),
      });
      const found = rows.map(
        (row) =>
          [row.queue, { namespace: row.namespace, ...row.policy, updated_at: row.updatedAt.toISOString() }] as const,
      );
      return { ...context.config, policies: new Map(found) };
    },
  });
}

/** The kind's attributes, as something that is only read. */
function asComputed(kind: PolicyKind): PolicyKind["attributes"] {
  const computed = (attributes: PolicyKind["attributes"]): PolicyKind["attributes"] =>
    Object.fromEntries(
      Object.entries(attributes).map(([name, { nested, ...rest }]) => [
        name,
        {
          ...rest,
          nested: nested === undefined ? undefined : { ...nested, attributes: computed(nested.attributes) },
          presence: "computed" as const,
          validators: [],
        },
      ]),
    );
  return computed(kind.attributes);
}

export const rateLimitPoliciesData = policies(
  rateLimits,
  "workhorse_rate_limit_policies",
  "The rate limits that PostgreSQL holds, whoever declared them.",
);

export const concurrencyPoliciesData = policies(
  concurrency,
  "workhorse_concurrency_policies",
  "The concurrency caps that PostgreSQL holds, whoever declared them.",
);
