import type { PolicyKind } from "./kind";

/**
 * What this run of Terraform has done so far. A run may both write and remove a queue's policy: a renamed resource without
 * a `moved` block, a replacement, a queue that goes from one resource of a namespace to another. Terraform says nothing of
 * the one while it asks for the other, and asks in any order.
 */
export class RunHistory {
  readonly #written = new Map<string, Set<object>>();
  readonly #removed = new Map<string, string>();

  /** Under the lock, before the end of the transaction: whoever gets the lock next sees it. Returns how to take it back. */
  record(kind: PolicyKind, namespace: string, written: Iterable<string>, removed: Iterable<string>): () => void {
    const change = {};
    const changes = [...written].map((queue) => this.#changesOf(key(kind, queue)));
    for (const of of changes) of.add(change);
    for (const queue of removed) this.#removed.set(key(kind, queue), namespace);
    return () => {
      for (const of of changes) of.delete(change);
      for (const queue of removed) this.#removed.delete(key(kind, queue));
    };
  }

  /** Whether the run has written a policy of the queue: it is then wanted, whoever else gives it up. */
  hasWritten(kind: PolicyKind, queue: string): boolean {
    return (this.#written.get(key(kind, queue))?.size ?? 0) > 0;
  }

  hasRemoved(kind: PolicyKind, queue: string): boolean {
    return this.#removed.has(key(kind, queue));
  }

  /** The queues whose policies the run has removed from a namespace. */
  removedFrom(kind: PolicyKind, namespace: string): string[] {
    const prefix = key(kind, "");
    return [...this.#removed]
      .filter(([name, from]) => from === namespace && name.startsWith(prefix))
      .map(([name]) => name.slice(prefix.length));
  }

  #changesOf(name: string): Set<object> {
    let found = this.#written.get(name);
    if (found === undefined) {
      found = new Set();
      this.#written.set(name, found);
    }
    return found;
  }
}

/** A kind's name has no blank. */
const key = (kind: PolicyKind, queue: string) => `${kind.name} ${queue}`;
