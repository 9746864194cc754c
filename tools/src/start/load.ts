import type { NewJob, Queue } from "@workhorse/queue";

export const PROVIDER_API = "provider-api";
export const MAIL = "mail";

/** The customer who sends more than all others, and first. */
export const BUSY_CUSTOMER = "acme";
const OTHERS = 120;

/** Job types, as the workers know them. */
export const CAPTURE = "payment.capture";
export const SEND = "mail.send";

const REFILL_MS = 1_000;

const customer = (number: number): string => `customer-${String(number).padStart(3, "0")}`;

/** What there is at first: the busy customer's jobs stand in front of everyone else's. */
export function burst(): NewJob[] {
  return [...jobs(PROVIDER_API, CAPTURE, { busy: 40, others: OTHERS, each: 2 }), ...mails({ busy: 40, each: 2 })];
}

const mails = ({ busy, each }: { busy: number; each: number }): NewJob[] =>
  jobs(MAIL, SEND, { busy, others: OTHERS, each });

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
export async function keepEnqueueing(queue: Queue, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const { queues } = await queue.health();
    const ready = (name: string) => queues.find((each) => each.queue === name)?.ready ?? 0;
    const more = [
      ...(ready(PROVIDER_API) < OTHERS ? jobs(PROVIDER_API, CAPTURE, { busy: 10, others: OTHERS, each: 1 }) : []),
      ...(ready(MAIL) < OTHERS / 2 ? mails({ busy: 5, each: 1 }) : []),
    ];
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
