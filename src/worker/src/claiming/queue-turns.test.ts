import { describe, expect, test } from "@jest/globals";
import { QueueTurns } from "./queue-turns";

const pollMs = 60_000;

function turnsOf(...queues: string[]): QueueTurns {
  return new QueueTurns(queues, () => pollMs);
}

/** Claims from the queue that is due, with this answer. */
function claim(
  turns: QueueTurns,
  answer: { reason: "tokens" | "slots" | "empty" | "key_tokens" | null; waitMs?: number },
  now = 0,
): string {
  const { turn } = turns.next(now)!;
  turns.begin(turn);
  turns.answered(turn, { reason: answer.reason, waitMs: answer.waitMs ?? null }, now);
  return turn.name;
}

describe("QueueTurns", () => {
  test("due queues take turns", () => {
    const turns = turnsOf("a", "b", "c");
    expect(turns.next(0)?.due).toBe(3);
    const order = Array.from({ length: 7 }, () => claim(turns, { reason: null }));
    expect(order).toEqual(["a", "b", "c", "a", "b", "c", "a"]);
  });

  test("a queue that cannot start rests for as long as PostgreSQL says, without a queue in the way of another", () => {
    const turns = turnsOf("a", "b");
    claim(turns, { reason: "tokens", waitMs: 5_000 });
    expect(claim(turns, { reason: null })).toBe("b");
    expect(claim(turns, { reason: "slots", waitMs: 7_000 })).toBe("b");
    expect(turns.next(4_999)).toBeUndefined();
    expect(turns.nextDueAt()).toBe(5_000);
    expect(turns.next(5_000)).toMatchObject({ turn: { name: "a" }, due: 1 });
    expect(turns.next(7_000)?.due).toBe(2);
  });

  test("without a time, and for longer ones, it polls", () => {
    for (const waitMs of [undefined, 10 * pollMs, 2 ** 40]) {
      const turns = turnsOf("a");
      claim(turns, { reason: "empty", ...(waitMs === undefined ? {} : { waitMs }) });
      expect(Math.abs(turns.nextDueAt() - pollMs)).toBeLessThanOrEqual(pollMs / 10);
    }
  });

  test("a notification makes its queue due, and no other", () => {
    const turns = turnsOf("a", "b");
    claim(turns, { reason: "empty" });
    claim(turns, { reason: "empty" });
    expect(turns.notify("x")).toBe(false);
    expect(turns.next(1)).toBeUndefined();
    expect(turns.notify("b")).toBe(true);
    expect(turns.next(1)).toMatchObject({ turn: { name: "b" }, due: 1 });
  });

  test("a notification that comes while the claim is under way is remembered", () => {
    const turns = turnsOf("a");
    const { turn } = turns.next(0)!;
    turns.begin(turn);
    turns.notify("a");
    turns.answered(turn, { reason: "empty", waitMs: null }, 0);
    expect(turns.next(0)?.turn.name).toBe("a");
    claim(turns, { reason: "empty" });
    expect(turns.next(0)).toBeUndefined();
  });

  test("without tokens, notifications are taken together: enqueues cannot help", () => {
    const turns = turnsOf("a");
    claim(turns, { reason: "tokens", waitMs: 5_000 });
    turns.notify("a");
    expect(turns.next(50)).toBeUndefined();
    expect(turns.next(100)?.turn.name).toBe("a");
    claim(turns, { reason: "tokens", waitMs: 20 }, 100);
    turns.notify("a");
    expect(turns.nextDueAt()).toBe(120); // the token itself is not waited past
    claim(turns, { reason: "key_tokens", waitMs: 5_000 }, 120);
    turns.notify("a"); // another key's job may start
    expect(turns.next(120)?.turn.name).toBe("a");
  });

  test("anything may have happened: everything is due", () => {
    const turns = turnsOf("a", "b");
    claim(turns, { reason: "tokens", waitMs: 5_000 });
    claim(turns, { reason: "empty" });
    turns.notifyAll();
    expect(turns.next(0)?.due).toBe(2);
    const { turn } = turns.next(0)!;
    turns.begin(turn);
    turns.notifyAll();
    turns.answered(turn, { reason: "tokens", waitMs: 5_000 }, 0);
    expect(turns.next(0)?.due).toBe(2);
  });
});
