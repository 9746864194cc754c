import { bounds } from "@workhorse/sql";
import { type Client, requireDatabase } from "../client";
import type { Database } from "../connection/database";
import { DatabaseProblem } from "../connection/problems";
import {
  attribute,
  type ClientContext,
  type Context,
  DiagnosticError,
  defineResource,
  defineSchema,
  isKnown,
  keyStep,
  pathOf,
  type Resource,
  size,
  t,
  Unknown,
  unknown,
  valuesEqual,
} from "../framework";
import { type PolicyKind, policyName } from "../policies/kind";
import { compareBytes, differences, nameList, type Policies, PolicyStore, type Snapshot } from "../policies/namespace";
import { conflicts, type PolicySet, removals, remove, write } from "../policies/set-changes";

/** A resource that holds a namespace's policies of one kind: the same for every kind. */
export function policySet(kind: PolicyKind, typeName: string, description: string): Resource<Client> {
  const schema = defineSchema({
    description,
    attributes: {
      id: attribute.string({ computed: true, description: "The namespace." }),
      namespace: attribute.string({
        required: true,
        description:
          "The owner of the policies, 1 to 256 bytes. A changed namespace moves the queues, with what is in their buckets.",
        validators: [policyName],
      }),
      policies: attribute.map(kind.attributes, {
        required: true,
        description: "The policies by queue; a queue's name has 1 to 256 bytes. A queue need not have jobs yet.",
        validators: [size(bounds.definitions.min, bounds.definitions.max)],
      }),
      prune: attribute.bool({
        default: true,
        description:
          "Whether the namespace has these policies and no others: others are then removed, as the plan shows. With " +
          "`false` only the queues of `policies` are looked at. Default `true`.",
      }),
      pruned: attribute.of(t.list(t.string), {
        computed: true,
        description: "The queues whose policies the last change removed, sorted.",
      }),
    },
  });

  const store = (database: Database) => new PolicyStore(kind, database);

  /** The snapshot; empty, with a warning, where Workhorse is not installed yet. */
  async function snapshotForPlan(
    context: Context,
    database: Database,
    wanted: { namespace: string; movedFrom?: string | undefined; queues: readonly string[] },
  ): Promise<Snapshot> {
    try {
      return await store(database).snapshot(context.signal, wanted);
    } catch (error) {
      warnOfMissingSchema(error, wanted.namespace, context);
      return { owned: new Map(), before: new Map(), foreign: new Map() };
    }
  }

  function warnOfMissingSchema(error: unknown, namespace: string, { diagnostics }: Context): void {
    if (!(error instanceof DatabaseProblem) || error.kind !== "schema-missing") throw error;
    diagnostics.warning(
      `Workhorse is not installed yet, so namespace ${JSON.stringify(namespace)} counts as empty`,
      `${error.summary}. If a resource workhorse_schema of this configuration installs it, name that in this resource's ` +
        `depends_on; otherwise the apply will fail.`,
    );
  }

  function refuseConflicts(found: readonly [queue: string, owner: string][], namespace: string): void {
    if (found.length === 0) return;
    throw new DiagnosticError(
      ...found.slice(0, 10).map(([queue, owner]) => ({
        severity: "error" as const,
        summary: `Queue ${JSON.stringify(queue)} is owned by namespace ${JSON.stringify(owner)}`,
        detail:
          `Namespace ${JSON.stringify(namespace)} cannot have a ${kind.name} policy for queue ${JSON.stringify(queue)}: ` +
          `namespace ${JSON.stringify(owner)} has one. Nothing was changed. Take the queue out of policies, or have ` +
          `${JSON.stringify(owner)} give it up first, in a run of its own.`,
        path: pathOf("policies", [queue]),
      })),
      ...(found.length > 10
        ? [
            {
              severity: "error" as const,
              summary: "More queues are owned by others",
              detail: `${found.length} in all.`,
            },
          ]
        : []),
    );
  }

  function refuseStale(
    { client }: ClientContext<Client>,
    prior: PolicySet,
    planned: PolicySet,
    snapshot: Snapshot,
  ): void {
    const found: Policies = prior.prune
      ? snapshot.before
      : new Map([...snapshot.before].filter(([queue]) => prior.policies.has(queue)));
    const changed = differences(kind, prior.policies, found).filter(
      ([queue]) => found.has(queue) || !client.history.hasRemoved(kind, queue),
    );
    if (changed.length === 0) return;
    // Someone has already made it what it shall be; a run that was cut off may have.
    if (prior.namespace === planned.namespace && differences(kind, planned.policies, found).length === 0) return;
    const list = changed.slice(0, 10).map(([queue, how]) => `${JSON.stringify(queue)} ${how}`);
    const more = changed.length > 10 ? `, and ${changed.length - 10} more` : "";
    throw DiagnosticError.of(
      `The ${kind.name} policies of namespace ${JSON.stringify(prior.namespace)} changed since the plan`,
      `Since they were read, ${list.join(", ")}${more}. Nothing was changed. Plan again, with a refresh, and look at what it shows.`,
    );
  }

  return defineResource<Client, typeof schema>({
    typeName,
    schema,
    identity: { attributes: { namespace: { type: t.string, description: "The owner of the policies." } } },
    identityOf: ({ namespace }) => ({ namespace }),

    validate({ config, diagnostics }) {
      if (!isKnown(config.policies)) return;
      for (const [queue, policy] of config.policies) {
        const path = pathOf("policies", [queue]);
        if (!policyName.test(queue)) {
          const got = queue.length > 60 ? `a name of ${Buffer.byteLength(queue)} bytes` : JSON.stringify(queue);
          diagnostics.error("Invalid queue name in policies", `Got ${got}; accepted is ${policyName.accepts}.`, path);
        }
        if (isKnown(policy)) kind.validate(policy, queue, path, diagnostics);
      }
    },

    async read(context) {
      const { client, state, signal } = context;
      if (client.database === undefined) return state;
      try {
        const rows = await store(client.database).list(signal, { namespace: state.namespace });
        const kept = state.prune ? rows : rows.filter(({ queue }) => state.policies.has(queue));
        return { ...state, id: state.namespace, policies: new Map(kept.map(({ queue, policy }) => [queue, policy])) };
      } catch (error) {
        warnOfMissingSchema(error, state.namespace, context);
        return { ...state, policies: new Map() };
      }
    },

    async plan(context) {
      const { client, prior, planned, diagnostics } = context;
      const { namespace, policies, prune } = planned;
      if (isKnown(policies)) {
        for (const [queue, policy] of policies) {
          if (isKnown(policy)) kind.warn(policy, queue, keyStep(pathOf("policies"), queue), diagnostics);
        }
      }
      const unchanged =
        prior !== null &&
        prior.namespace === namespace &&
        prior.prune === prune &&
        valuesEqual(schema.attributes.policies.type, prior.policies, policies);
      if (unchanged) return { ...prior, id: prior.namespace, pruned: prior.pruned ?? [] };
      const result = { ...planned, id: namespace };
      if (!isKnown(namespace) || !isKnown(policies) || !isKnown(prune) || client.database === undefined) {
        return { ...result, pruned: unknown };
      }

      const movedFrom = prior === null || prior.namespace === namespace ? undefined : prior.namespace;
      const snapshot = await snapshotForPlan(context, client.database, {
        namespace,
        movedFrom,
        queues: [...policies.keys()],
      });
      refuseConflicts(conflicts(prior, namespace, snapshot), namespace);
      const pruned = withEarlier(
        context,
        { namespace, policies, prune },
        removals(prior, { namespace, policies, prune }, snapshot),
      );
      warnOfPlan(context, prior, { namespace, policies, prune }, pruned);
      return { ...result, pruned };
    },

    async create(context) {
      const planned = knownSet(context.planned);
      await apply(context, null, planned, context.planned.pruned);
      return { ...planned, id: planned.namespace, pruned: knownNames(context.planned.pruned) };
    },

    async update(context) {
      const planned = knownSet(context.planned);
      await apply(context, context.prior, planned, context.planned.pruned);
      return { ...planned, id: planned.namespace, pruned: knownNames(context.planned.pruned) };
    },

    async delete(context) {
      const { client, prior, signal, diagnostics } = context;
      const database = requireDatabase(context);
      try {
        await store(database).change(signal, { namespace: prior.namespace, queues: [] }, async (snapshot, sync) => {
          const owned = [...prior.policies.keys()].filter((queue) => snapshot.owned.has(queue));
          const gone = owned.filter((queue) => !client.history.hasWritten(kind, queue));
          warnOfKept(context, prior.namespace, owned, gone);
          await remove(prior.namespace, gone, snapshot, sync);
          return client.history.record(kind, prior.namespace, [], gone);
        });
      } catch (error) {
        // What is not installed holds no policies.
        if (!(error instanceof DatabaseProblem) || error.kind !== "schema-missing") throw error;
        diagnostics.warning(
          `Namespace ${JSON.stringify(prior.namespace)} was already gone`,
          `${error.summary}; there was nothing to remove.`,
        );
      }
    },

    async import(context) {
      const namespace = "id" in context.target ? context.target.id : String(context.target.identity.namespace);
      const rows = await store(requireDatabase(context)).list(context.signal, { namespace });
      if (rows.length === 0) {
        throw DiagnosticError.of(
          `Namespace ${JSON.stringify(namespace)} has no ${kind.name} policies`,
          `There is nothing to import. The id of a ${typeName} is its namespace, exactly as it was given.`,
        );
      }
      const policies = new Map(rows.map(({ queue, policy }) => [queue, policy]));
      return { id: namespace, namespace, policies, prune: true, pruned: [] };
    },
  });

  /** Writes what was planned, and nothing that was not. */
  function apply(
    context: ClientContext<Client>,
    prior: PolicySet | null,
    planned: PolicySet,
    plannedRemovals: readonly string[] | null | Unknown,
  ): Promise<void> {
    const { namespace, policies } = planned;
    const { history } = context.client;
    const movedFrom = prior === null || prior.namespace === namespace ? undefined : prior.namespace;
    const wanted = { namespace, movedFrom, queues: [...policies.keys()] };
    return store(requireDatabase(context)).change(context.signal, wanted, async (snapshot, sync) => {
      refuseConflicts(conflicts(prior, namespace, snapshot), namespace);
      if (prior !== null) refuseStale(context, prior, planned, snapshot);
      const removed = removals(prior, planned, snapshot);
      refuseRivals(context, planned, removed, snapshot);
      const shown = new Set(knownNames(plannedRemovals));
      const unseen = removed.filter((queue) => !shown.has(queue));
      if (unseen.length > 0) {
        throw DiagnosticError.of(
          `The apply would remove policies of namespace ${JSON.stringify(namespace)} that the plan did not show`,
          `Queues ${nameList(unseen)} have ${kind.name} policies which are not in this configuration and came after the ` +
            `plan. Nothing was changed. Plan again and look at what it shows.`,
        );
      }
      const gone = removed.filter((queue) => !history.hasWritten(kind, queue));
      warnOfKept(context, prior?.namespace ?? namespace, removed, gone);
      await write(prior, planned, gone, snapshot, sync);
      return history.record(kind, prior?.namespace ?? namespace, policies.keys(), gone);
    });
  }

  /**
   * What an earlier step of this run has already removed is still what the plan showed: a replacement destroys before it
   * creates, and Terraform wants the plan that it makes in between to be the same.
   */
  function withEarlier(
    { client }: ClientContext<Client>,
    planned: PolicySet<{ has(queue: string): boolean }>,
    pruned: readonly string[],
  ): string[] {
    const earlier = planned.prune ? client.history.removedFrom(kind, planned.namespace) : [];
    const all = new Set([...pruned, ...earlier.filter((queue) => !planned.policies.has(queue))]);
    return [...all].sort(compareBytes);
  }

  /** Another resource of this run wants otherwise what this one would remove or change. */
  function refuseRivals(
    { client }: ClientContext<Client>,
    planned: PolicySet,
    removed: readonly string[],
    snapshot: Snapshot,
  ): void {
    const changed = differences(kind, planned.policies, snapshot.owned).flatMap(([queue, how]) =>
      how === "was changed" ? [queue] : [],
    );
    const touched = planned.prune ? [...changed, ...removed] : changed;
    const rivals = touched.filter((queue) => client.history.hasWritten(kind, queue));
    if (rivals.length === 0) return;
    throw DiagnosticError.of(
      `Two resources of this run claim namespace ${JSON.stringify(planned.namespace)}`,
      `This one would remove or change the ${kind.name} policies of ${nameList(rivals)}, which another has just written. This ` +
        `one has changed nothing. Put all policies of the namespace into one resource, or set prune = false in each and name ` +
        `each queue in only one.`,
    );
  }

  function warnOfKept(
    { diagnostics }: Context,
    namespace: string,
    removed: readonly string[],
    gone: readonly string[],
  ): void {
    if (removed.length === gone.length) return;
    const kept = removed.filter((queue) => !gone.includes(queue));
    diagnostics.warning(
      `Policies of namespace ${JSON.stringify(namespace)} were kept`,
      `This run has just written the ${kind.name} policies of ${nameList(kept)} for another resource, or for the replacement of ` +
        `this one: they stay. Where a resource was only renamed, a moved block spares removing and making anew.`,
    );
  }

  function warnOfPlan(
    { diagnostics }: Context,
    prior: PolicySet | null,
    planned: PolicySet<{ readonly size: number; has(queue: string): boolean }>,
    pruned: readonly string[],
  ): void {
    const name = JSON.stringify(planned.namespace);
    // The diff of policies shows what leaves the state; what was never in it stands in pruned alone.
    const others = pruned.filter((queue) => !prior?.policies.has(queue));
    if (others.length > 0) {
      diagnostics.warning(
        `${prior === null ? "Creating" : "Changing"} this removes ${kind.name} policies of namespace ${name}`,
        `The namespace already has policies that are not in this configuration. With prune = true they are removed: ` +
          `${nameList(others)}. To keep them, add them to policies, ${prior === null ? "import the namespace first, " : ""}or set prune = false.`,
      );
    }
    if (planned.prune && planned.policies.size === 0) {
      diagnostics.warning(
        `Namespace ${name} is left without ${kind.name} policies`,
        "policies is empty and prune is true, so that every policy of the namespace is removed and its queues run unlimited.",
      );
    }
    if (prior?.prune && !planned.prune) {
      const left = [...prior.policies.keys()].filter((queue) => !planned.policies.has(queue)).sort(compareBytes);
      diagnostics.warning(
        `prune is turned off for the ${kind.name} policies of namespace ${name}`,
        left.length === 0
          ? "Nothing is removed by this change, and policies that others add from now on are left alone."
          : `Nothing is removed by this change: the policies of ${nameList(left)} stay, and are no longer looked after here.`,
      );
    }
  }
}

/** During apply everything but what the provider computes is known. */
function knownSet({ namespace, policies, prune }: PolicySet): PolicySet {
  return { namespace, policies, prune };
}

function knownNames(names: readonly string[] | null | Unknown): readonly string[] {
  return names === null || names instanceof Unknown ? [] : names;
}
