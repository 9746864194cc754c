import type { Claim } from "@workhorse/queue";
import { jittered } from "../timing";

/** A queue of the worker: when to claim from it again. */
export interface QueueTurn {
  readonly name: string;
}

interface Turn extends QueueTurn {
  /** On the monotonic clock. */
  dueAt: number;
  /** The number of the latest claim; the due queue with the lowest is next. */
  lastClaim: number;
  /** What came since the latest claim was sent: a notification, or the news that some may have been missed. */
  news: "none" | "notified" | "missed";
  /** Until then only time or a changed policy helps, so a notification may wait. */
  calmUntil: number;
}

/**
 * A queue without tokens is notified of every job enqueued, none of which can start. Only a changed policy could, and it may
 * wait this long.
 */
const calmMs = 100;

const never = Number.NEGATIVE_INFINITY;

/** Which queue is claimed from next, and when: due ones take turns. All times are on the monotonic clock. */
export class QueueTurns {
  readonly #turns: Map<string, Turn>;
  #claims = 0;

  /** @param pollMs the longest time between two claims from a queue, as it is at the moment. */
  constructor(
    queues: readonly string[],
    private readonly pollMs: () => number,
  ) {
    this.#turns = new Map(
      queues.map((name) => [name, { name, dueAt: never, lastClaim: 0, news: "none", calmUntil: never }]),
    );
  }

  /** Something happened to a queue. Returns whether it is one of ours. */
  notify(name: string): boolean {
    const turn = this.#turns.get(name);
    if (turn === undefined) return false;
    if (turn.news === "none") turn.news = "notified";
    turn.dueAt = Math.min(turn.dueAt, turn.calmUntil);
    return true;
  }

  /** Anything may have happened to any queue. */
  notifyAll(): void {
    for (const turn of this.#turns.values()) {
      turn.news = "missed";
      turn.dueAt = never;
      turn.calmUntil = never;
    }
  }

  /** The due queue that has waited longest for its turn, and how many are due. */
  next(now: number): { turn: QueueTurn; due: number } | undefined {
    const due = [...this.#turns.values()].filter((turn) => turn.dueAt <= now);
    const turn = due.reduce<Turn | undefined>(
      (first, each) => (first !== undefined && first.lastClaim <= each.lastClaim ? first : each),
      undefined,
    );
    return turn === undefined ? undefined : { turn, due: due.length };
  }

  /** When the next queue is due. */
  nextDueAt(): number {
    return Math.min(...[...this.#turns.values()].map((turn) => turn.dueAt));
  }

  /** A claim is about to be sent: what is notified from now on may come too late for it. */
  begin({ name }: QueueTurn): void {
    const turn = this.#turns.get(name)!;
    turn.lastClaim = ++this.#claims;
    turn.news = "none";
  }

  /** The claim's answer came. */
  answered({ name }: QueueTurn, answer: Pick<Claim, "reason" | "waitMs">, now: number): void {
    const turn = this.#turns.get(name)!;
    turn.calmUntil = answer.reason === "tokens" ? now + calmMs : never;
    if (answer.reason === null || turn.news === "missed") {
      turn.dueAt = never; // as many started as were asked for, so there may be more; or anything may have happened
      return;
    }
    turn.dueAt = now + Math.min(answer.waitMs ?? Number.POSITIVE_INFINITY, jittered(this.pollMs()));
    if (turn.news === "notified") turn.dueAt = Math.min(turn.dueAt, turn.calmUntil);
  }
}
