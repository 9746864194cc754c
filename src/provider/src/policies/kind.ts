import type { Executor, Queue } from "@workhorse/queue";
import { bounds } from "@workhorse/sql";
import type { Attributes, Diagnostics, ObjectValue, Path, Validator } from "../framework";

/** A policy of a queue as PostgreSQL holds it, in Terraform's terms. */
export interface StoredPolicy {
  readonly queue: string;
  readonly namespace: string;
  /** The kind's attributes. */
  readonly policy: ObjectValue;
  readonly updatedAt: Date;
}

/** What the policies of a kind have of their own. Everything else about them is shared. */
export interface PolicyKind {
  /** In messages: `rate-limit`. */
  readonly name: string;
  /** The attributes of one policy. */
  readonly attributes: Attributes;
  /** Refusals across the attributes of one policy, any of which may be unknown. */
  validate(policy: ObjectValue, queue: string, path: Path, diagnostics: Diagnostics): void;
  /** What is allowed but hardly meant. */
  warn(policy: ObjectValue, queue: string, path: Path, diagnostics: Diagnostics): void;
  /** Takes the lock that every synchroniser of the kind takes, until the transaction's end. */
  lock(queue: Queue, executor: Executor): Promise<void>;
  list(queue: Queue, filter: { queues?: readonly string[]; namespace?: string }): Promise<StoredPolicy[]>;
  /** Makes a namespace's policies what the map says; see the contract's sync functions. */
  sync(queue: Queue, namespace: string, policies: ReadonlyMap<string, ObjectValue>, prune: boolean): Promise<void>;
}

/** What a namespace or queue may be called. */
export const policyName: Validator<string> = {
  accepts: `${bounds.nameBytes.min} to ${bounds.nameBytes.max} bytes of UTF-8 text without NUL characters`,
  test: (name) => {
    const bytes = Buffer.byteLength(name, "utf8");
    return bytes >= bounds.nameBytes.min && bytes <= bounds.nameBytes.max && !name.includes("\0");
  },
};
