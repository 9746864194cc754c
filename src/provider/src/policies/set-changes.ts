import { compareBytes, type Policies, type Snapshot, type Sync } from "./namespace";

/** A set of policies: what a state or a plan of such a resource says. */
export interface PolicySet<M = Policies> {
  readonly namespace: string;
  readonly policies: M;
  readonly prune: boolean;
}

/** Anything that knows its keys. */
interface Keyed {
  has(key: string): boolean;
}

/**
 * The queues whose policies a change removes, sorted: those that left the map, and with `prune` whatever else the
 * namespace has. Turning `prune` off removes nothing: the state then holds others' policies too, and nobody can tell
 * them from those that left the map.
 */
export function removals(
  prior: PolicySet<Keyed & Iterable<readonly [string, unknown]>> | null,
  planned: PolicySet<Keyed>,
  snapshot: Snapshot,
): string[] {
  const removed = new Set<string>();
  if (prior?.prune && !planned.prune) return [];
  if (prior !== null) {
    for (const [queue] of prior.policies) {
      if (!planned.policies.has(queue) && snapshot.before.has(queue)) removed.add(queue);
    }
  }
  if (planned.prune) {
    for (const queue of snapshot.owned.keys()) if (!planned.policies.has(queue)) removed.add(queue);
  }
  return [...removed].sort(compareBytes);
}

/** Queues of the map that another namespace has, with the owner; not those that the change itself moves here. */
export function conflicts(
  prior: PolicySet<Keyed> | null,
  namespace: string,
  snapshot: Snapshot,
): [queue: string, owner: string][] {
  return [...snapshot.foreign]
    .filter(([queue, owner]) => owner !== namespace && !(owner === prior?.namespace && prior.policies.has(queue)))
    .sort(([a], [b]) => compareBytes(a, b));
}

/** Writes a create or an update: one sync for the namespace, and one before for the one that queues are moved from. */
export async function write(
  prior: PolicySet | null,
  planned: PolicySet,
  removed: readonly string[],
  snapshot: Snapshot,
  sync: Sync,
): Promise<void> {
  const moving = prior !== null && prior.namespace !== planned.namespace;
  if (moving) {
    const kept = new Map(snapshot.before);
    for (const queue of prior.policies.keys()) {
      if (planned.policies.has(queue) || removed.includes(queue)) kept.delete(queue);
    }
    await sync(prior.namespace, kept, true);
  }
  const gone = removed.filter((queue) => snapshot.owned.has(queue));
  if (planned.prune || gone.length === 0) {
    await sync(planned.namespace, planned.policies, planned.prune);
    return;
  }
  // Removes exactly these: everything else that the namespace has is named as well, and stays.
  await sync(planned.namespace, without(new Map([...snapshot.owned, ...planned.policies]), gone), true);
}

/** Writes a destroy: removes exactly these queues. */
export async function remove(
  namespace: string,
  queues: readonly string[],
  snapshot: Snapshot,
  sync: Sync,
): Promise<void> {
  if (queues.length > 0) await sync(namespace, without(snapshot.owned, queues), true);
}

function without(policies: Policies, queues: readonly string[]): Policies {
  const result = new Map(policies);
  for (const queue of queues) result.delete(queue);
  return result;
}
