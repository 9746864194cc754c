import { type Executor, Queue } from "@workhorse/queue";
import type { Database } from "../connection/database";
import { type ObjectValue, valuesEqual } from "../framework";
import { objectType } from "../framework/schema/attributes";
import type { PolicyKind } from "./kind";

/** Policies by queue. */
export type Policies = ReadonlyMap<string, ObjectValue>;

/** What the database says at one moment about a namespace, and about queues it wants. */
export interface Snapshot {
  /** The namespace's own policies. */
  readonly owned: Policies;
  /** The policies of the namespace that queues are moved from; those of {@link owned} when nothing moves. */
  readonly before: Policies;
  /** Wanted queues that other namespaces own, with the owner. */
  readonly foreign: ReadonlyMap<string, string>;
}

export interface Wanted {
  readonly namespace: string;
  /** The namespace before the change. Undefined = the same, or none. */
  readonly movedFrom?: string | undefined;
  readonly queues: readonly string[];
}

/** The policies of one kind in one database. */
export class PolicyStore {
  constructor(
    readonly kind: PolicyKind,
    private readonly database: Database,
  ) {}

  /** All policies, or those that a filter lets through. */
  list(signal: AbortSignal, filter: { queues?: readonly string[]; namespace?: string }) {
    return this.database.transaction(signal, (executor) => this.kind.list(new Queue(executor), filter));
  }

  snapshot(signal: AbortSignal, wanted: Wanted): Promise<Snapshot> {
    return this.database.transaction(signal, (executor) => readSnapshot(executor, this.kind, wanted));
  }

  /**
   * Reads, decides and writes with nobody in between: the lock that every synchroniser of the kind takes is held from
   * before the reading to the end.
   */
  async change(
    signal: AbortSignal,
    wanted: Wanted,
    decide: (snapshot: Snapshot, sync: Sync) => Promise<Undo>,
  ): Promise<void> {
    let undo: Undo | undefined;
    try {
      await this.database.transaction(signal, async (executor) => {
        const queue = new Queue(executor);
        await this.kind.lock(queue, executor);
        undo = await decide(await readSnapshot(executor, this.kind, wanted), (namespace, policies, prune) =>
          this.kind.sync(queue, namespace, policies, prune),
        );
      });
    } catch (error) {
      undo?.();
      throw error;
    }
  }
}

/** Takes back what was noted of a change whose transaction then failed. */
type Undo = () => void;

export type Sync = (namespace: string, policies: Policies, prune: boolean) => Promise<void>;

async function readSnapshot(
  executor: Executor,
  kind: PolicyKind,
  { namespace, movedFrom, queues }: Wanted,
): Promise<Snapshot> {
  const queue = new Queue(executor);
  const ofNamespace = async (name: string) =>
    new Map((await kind.list(queue, { namespace: name })).map((row) => [row.queue, row.policy]));
  const owned = await ofNamespace(namespace);
  const before = movedFrom === undefined ? owned : await ofNamespace(movedFrom);
  const unowned = queues.filter((name) => !owned.has(name));
  const elsewhere = unowned.length === 0 ? [] : await kind.list(queue, { queues: unowned });
  return { owned, before, foreign: new Map(elsewhere.map((row) => [row.queue, row.namespace])) };
}

/** Queues whose policies differ between two maps, sorted, each with how. */
export function differences(kind: PolicyKind, expected: Policies, found: Policies): [queue: string, how: string][] {
  const type = objectType(kind.attributes);
  const result: [string, string][] = [];
  for (const [queue, policy] of found) {
    const other = expected.get(queue);
    if (other === undefined) result.push([queue, "was added"]);
    else if (!valuesEqual(type, other, policy)) result.push([queue, "was changed"]);
  }
  for (const queue of expected.keys()) if (!found.has(queue)) result.push([queue, "was removed"]);
  return result.sort(([a], [b]) => compareBytes(a, b));
}

/** By the bytes of the UTF-8 form, as PostgreSQL's "C" collation. */
export function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a, "utf8"), Buffer.from(b, "utf8"));
}

const SHOWN = 10;

/** Names for a message; of many, the first ten. */
export function nameList(names: Iterable<string>): string {
  const all = [...names];
  const shown = all.slice(0, SHOWN).map((name) => JSON.stringify(name));
  return all.length > SHOWN ? `${shown.join(", ")} and ${all.length - SHOWN} more` : shown.join(", ");
}
