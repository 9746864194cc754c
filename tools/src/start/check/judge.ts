import { allowance, findExcess, type RateFrom } from "../../bounds/bucket";
import { formatRate } from "../format";
import type { Evidence, Start } from "./evidence";
import { mostAtOnce } from "./slots";

/** What the workers were to keep to, and when. Times in microseconds, by PostgreSQL's clock. */
export interface Expectation {
  readonly rateLimit: {
    readonly queue: string;
    /** As first declared, then as changed. */
    readonly rates: readonly [RateFrom, RateFrom];
    readonly perKey: RateFrom;
  };
  readonly cap: { readonly queue: string; readonly maxActive: number; readonly maxActivePerKey: number };
  /** The key whose jobs stand in front of all others', more of them than its limits let start. */
  readonly busyKey: string;
  /** When its jobs were there to be started. */
  readonly enqueuedUs: bigint;
}

/** One sentence about what was found, and whether it is as it must be. */
export interface Finding {
  readonly ok: boolean;
  readonly text: string;
}

/** A rate that is kept, but by workers that start late, still comes to this part of it on a machine that is busy. */
const KEPT = 0.5;

/** Judges everything that was started by what the policies allow. */
export function judge(evidence: Evidence, expected: Expectation): Finding[] {
  return [
    complete(evidence),
    queueRate(evidence, expected),
    keyRates(evidence, expected),
    caps(evidence, expected),
    noKeyHeldUpOthers(evidence, expected),
    noKeyKeptSlots(evidence, expected),
    rateWentUp(evidence, expected),
  ];
}

/** Only if no start is missing do the other findings mean something. */
function complete({ starts, counted }: Evidence): Finding {
  const unaccounted = [...counted].find(([queue, count]) => count !== of(starts, queue).length);
  if (unaccounted !== undefined) {
    const [queue, count] = unaccounted;
    const text = `${queue} counts ${count} starts, but its jobs tell of ${of(starts, queue).length}`;
    return { ok: false, text };
  }
  const odd = starts.find(({ count, state }) => count !== 1 || (state !== "active" && state !== "completed"));
  if (odd !== undefined) {
    return { ok: false, text: `job ${odd.job} of ${odd.queue} was started ${odd.count} times and is ${odd.state}` };
  }
  const workers = new Set(starts.map(({ worker }) => worker)).size;
  return { ok: workers > 1, text: `${starts.length} jobs were started by ${workers} processes, each exactly once` };
}

function queueRate({ starts }: Evidence, { rateLimit: { queue, rates } }: Expectation): Finding {
  const excess = findExcess(of(starts, queue).map(startedAt), rates);
  const [before, after] = rates.map(formatRate);
  return excess === undefined
    ? { ok: true, text: `${queue} kept to ${before}, then ${after}, in every window of time` }
    : { ok: false, text: `${queue}: ${describeExcess(excess)}` };
}

function keyRates({ starts }: Evidence, { rateLimit: { queue, perKey } }: Expectation): Finding {
  const byKey = grouped(of(starts, queue));
  for (const [key, own] of byKey) {
    const excess = findExcess(own.map(startedAt), [perKey]);
    if (excess !== undefined) return { ok: false, text: `${queue}, ${key}: ${describeExcess(excess)}` };
  }
  return { ok: byKey.size > 0, text: `${queue} kept each of ${byKey.size} customers to ${formatRate(perKey)}` };
}

function caps({ starts }: Evidence, { cap: { queue, maxActive, maxActivePerKey } }: Expectation): Finding {
  const ran = (those: readonly Start[]) => those.flatMap((start) => start.ran ?? []);
  const most = mostAtOnce(ran(of(starts, queue)));
  const mostPerKey = Math.max(0, ...[...grouped(of(starts, queue)).values()].map((own) => mostAtOnce(ran(own))));
  return {
    ok: most > 0 && most <= maxActive && mostPerKey <= maxActivePerKey,
    text: `${queue} ran ${most} at once (allowed: ${maxActive}), ${mostPerKey} of one customer (allowed: ${maxActivePerKey})`,
  };
}

/** Others must have had what the busy key left, while its jobs waited in front of theirs. */
function noKeyHeldUpOthers(evidence: Evidence, { rateLimit, busyKey, enqueuedUs }: Expectation): Finding {
  const { queue, rates } = rateLimit;
  const lastUs = rates[1].fromUs;
  const inTime = of(evidence.starts, queue).filter(({ startedUs }) => startedUs >= enqueuedUs && startedUs < lastUs);
  const own = inTime.filter(({ key }) => key === busyKey).length;
  const overtaking = inTime.filter((start) => isOvertaking(evidence, start, busyKey)).length;
  const ideal = allowance(rates[0], lastUs - enqueuedUs) - own;
  return {
    ok: overtaking >= ideal * KEPT,
    text: `${queue}: ${overtaking} jobs of others overtook those of ${busyKey}, ${own} of which started`,
  };
}

function noKeyKeptSlots(evidence: Evidence, { cap: { queue }, busyKey }: Expectation): Finding {
  const overtaking = of(evidence.starts, queue).filter((start) => isOvertaking(evidence, start, busyKey)).length;
  return { ok: overtaking > 0, text: `${queue}: ${overtaking} jobs of others overtook those of ${busyKey}` };
}

/** Whether a job of another key was started while one of the busy key stood in front of it. */
function isOvertaking({ starts, waiting }: Evidence, start: Start, busyKey: string): boolean {
  if (start.key === busyKey) return false;
  const first = waiting.get(start.queue)?.get(busyKey)?.[0];
  return (
    (first !== undefined && first < start.place) ||
    starts.some(
      (each) =>
        each.queue === start.queue &&
        each.key === busyKey &&
        each.place < start.place &&
        each.startedUs > start.startedUs,
    )
  );
}

function rateWentUp({ starts, readAtUs }: Evidence, { rateLimit: { queue, rates } }: Expectation): Finding {
  const [before, after] = rates;
  const timeUs = readAtUs - after.fromUs;
  const since = of(starts, queue).filter(({ startedUs }) => startedUs >= after.fromUs).length;
  const formerly = Math.floor(allowance(before, timeUs));
  return {
    ok: since > formerly,
    text: `${queue}: ${since} starts in ${seconds(timeUs)} since the change; at most ${formerly} before it`,
  };
}

const startedAt = ({ startedUs }: Start): bigint => startedUs;
const of = (starts: readonly Start[], queue: string): Start[] => starts.filter((start) => start.queue === queue);

function grouped(starts: readonly Start[]): Map<string, Start[]> {
  const groups = new Map<string, Start[]>();
  for (const start of starts) {
    if (start.key !== null) groups.set(start.key, [...(groups.get(start.key) ?? []), start]);
  }
  return groups;
}

const describeExcess = ({ starts, lengthUs, allowed }: { starts: number; lengthUs: bigint; allowed: number }): string =>
  `${starts} starts in ${seconds(lengthUs)}, allowed are ${allowed}`;

const seconds = (us: bigint): string => `${(Number(us) / 1e6).toFixed(1)} s`;
