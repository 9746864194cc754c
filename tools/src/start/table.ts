import Table from "cli-table3";
import type { createColors } from "picocolors";
import { formatRate } from "./format";
import { BUSY_CUSTOMER } from "./load";
import type { QueueReading, Reading } from "./readings";

type Colors = ReturnType<typeof createColors>;

/** The narrowest terminal that has room for the columns marked as wide. */
const WIDE = 110;

interface Column {
  readonly title: string;
  readonly align?: "right";
  readonly wide?: boolean;
  readonly value: (queue: QueueReading, colors: Colors) => string;
}

const NONE = "-";

const COLUMNS: readonly Column[] = [
  { title: "queue", value: ({ queue }, { bold }) => bold(queue) },
  { title: "limit\n+ burst", value: limit },
  { title: "per customer", wide: true, value: limitPerKey },
  { title: "tokens", align: "right", value: tokens },
  { title: "started\n1 s/60 s", align: "right", value: (queue) => `${queue.startedInSecond}/${queue.startedInMinute}` },
  {
    title: "throttled",
    align: "right",
    value: ({ rateLimit }, { yellow }) => count(rateLimit?.throttledReady, yellow),
  },
  {
    title: "customers\nthrottled",
    align: "right",
    wide: true,
    value: ({ rateLimit }, { yellow }) => count(rateLimit?.throttledKeys, yellow),
  },
  { title: "next\nstart", align: "right", value: (queue, { cyan }) => cyan(nextStart(queue)) },
  { title: "active", align: "right", value: active },
  {
    title: "blocked",
    align: "right",
    value: ({ concurrency }, { yellow }) => count(concurrency?.blockedReady, yellow),
  },
];

/** The queues as a table, for a terminal of so many columns; and below it, how the customers fare. */
export function renderTable(reading: Reading, columns: number, colors: Colors): string[] {
  const shown = COLUMNS.filter(({ wide }) => !wide || columns >= WIDE);
  const table = new Table({
    head: shown.map(({ title }) => title.split("\n").map(colors.dim).join("\n")),
    colAligns: shown.map(({ align }) => align ?? "left"),
    style: { head: [], border: [], "padding-left": 0, "padding-right": 2, compact: true },
    chars: {
      ...{ top: "", "top-mid": "", "top-left": "", "top-right": "", bottom: "", "bottom-mid": "", "bottom-left": "" },
      ...{
        "bottom-right": "",
        left: "",
        "left-mid": "",
        mid: "",
        "mid-mid": "",
        right: "",
        "right-mid": "",
        middle: "",
      },
    },
  });
  for (const queue of reading.queues) table.push(shown.map(({ value }) => value(queue, colors)));
  const lines = table.toString().split("\n");
  return [...lines.map((line) => line.trimEnd()), "", `${colors.dim("provider-api:")} ${describeCustomers(reading)}`];
}

/** The same as plain lines, one for each queue. */
export function renderLines(reading: Reading): string[] {
  return reading.queues.map((queue) => {
    const { rateLimit, concurrency, startedInSecond, startedInMinute } = queue;
    const parts = [
      `started ${startedInSecond} in 1 s, ${startedInMinute} in 60 s`,
      ...(rateLimit === null ? [] : [`tokens ${tokens(queue)}`, `throttled ${count(rateLimit.throttledReady)}`]),
      `next start ${nextStart(queue)}`,
      `active ${active(queue)}`,
      ...(concurrency === null ? [] : [`blocked ${count(concurrency.blockedReady)}`]),
    ];
    return `${queue.queue}, ${limit(queue)}: ${parts.join(", ")}`;
  });
}

function describeCustomers({ busy, others }: Reading): string {
  return `in 60 s ${busy.started} of ${BUSY_CUSTOMER} (${busy.waiting} more wait), ${others.started} of other customers`;
}

function limit({ rateLimit, concurrency }: QueueReading): string {
  if (rateLimit !== null) return formatRate(rateLimit.rate);
  return concurrency === null ? NONE : `${concurrency.maxActive} at once`;
}

function limitPerKey({ rateLimit, concurrency }: QueueReading): string {
  if (rateLimit !== null) return rateLimit.perKey === null ? NONE : formatRate(rateLimit.perKey);
  const perKey = concurrency?.maxActivePerKey ?? null;
  return perKey === null ? NONE : `${perKey} at once`;
}

function tokens({ rateLimit }: QueueReading): string {
  return rateLimit === null ? NONE : `${rateLimit.availableTokens}/${rateLimit.rate.burst}`;
}

function nextStart({ ready, reason, nextStartMs }: QueueReading): string {
  if (ready === 0) return NONE;
  if (reason === "slots" || reason === "key_slots") return "slot";
  const seconds = ((nextStartMs ?? 0) / 1000).toFixed(1);
  return seconds === "0.0" ? "now" : `${seconds} s`;
}

function active({ active, concurrency }: QueueReading): string {
  return concurrency === null ? String(active) : `${active}/${concurrency.maxActive}`;
}

function count(value: number | undefined, emphasise: (text: string) => string = String): string {
  if (value === undefined) return NONE;
  return value === 0 ? "0" : emphasise(value.toLocaleString("en-US"));
}
