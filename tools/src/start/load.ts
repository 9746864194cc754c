import type { NewJob, Queue } from "@workhorse/queue";
import type { Pool } from "pg";

export const PROVIDER_API = "provider-api";
export const MAIL = "mail";

/** The customer who sends more than all others, and first. */
export const BUSY_CUSTOMER = "acme";
const OTHERS = 120;

/** Job types, as the workers know them. */
export const CAPTURE = "payment.capture";
export const SEND = "mail.send";

const REFILL_MS = 1_000;
/** So many of the busy customer's jobs always wait. */
const BUSY_LEFT = 20;

const customer = (number: number): string => `customer-${String(number).padStart(3, "0")}`;

/** What there is at first: the busy customer's jobs stand in front of everyone else's. */
export function burst(): NewJob[] {
  const count = { busy: 40, others: OTHERS, each: 2 };
  return [...jobs(PROVIDER_API, CAPTURE, count), ...jobs(MAIL, SEND, count)];
}

function jobs(queue: string, type: string, count: { busy: number; others: number; each: number }): NewJob[] {
  const made: NewJob[] = [];
  const add = (concurrencyKey: string) =>
    made.push({ type, queue, concurrencyKey, payload: { customer: concurrencyKey, number: made.length + 1 } });
  for (let n = 0; n < count.busy; n += 1) add(BUSY_CUSTOMER);
  for (let round = 0; round < count.each; round += 1) {
    for (let number = 1; number <= count.others; number += 1) add(customer(number));
  }
  return made;
}

/** Enqueues more whenever little is left, so that there is something to see, until the signal. */
export async function keepEnqueueing(pool: Pool, queue: Queue, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const { rows } = await pool.query<{ queue_name: string; busy: number; others: number }>(
      `SELECT queue_name, count(*) FILTER (WHERE concurrency_key = $1)::int AS busy,
         count(*) FILTER (WHERE concurrency_key <> $1)::int AS others
       FROM workhorse.job WHERE state = 'ready' GROUP BY queue_name`,
      [BUSY_CUSTOMER],
    );
    const more = [PROVIDER_API, MAIL].flatMap((name) => {
      const left = rows.find((row) => row.queue_name === name) ?? { busy: 0, others: 0 };
      const [busy, each] = [left.busy < BUSY_LEFT ? BUSY_LEFT : 0, left.others < OTHERS ? 1 : 0];
      return jobs(name, name === MAIL ? SEND : CAPTURE, { busy, others: OTHERS, each });
    });
    await queue.enqueueMany(more);
    await pause(REFILL_MS, signal);
  }
}

/** Waits, at most until the signal. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
  });
}
