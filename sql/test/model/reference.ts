/**
 * What the limits promise, in the plainest form: every job and every bucket in memory, exact rationals, no index, no lock.
 * A claim walks over all ready jobs in the order of their places and starts each that everything allows.
 */

/** A non-negative rational number. */
export interface Rational {
  readonly num: bigint;
  readonly den: bigint;
}

export interface Rate {
  readonly limit: number;
  readonly intervalMs: number;
  readonly burst: number;
}

export interface ModelJob {
  readonly id: bigint;
  readonly key: string | null;
  readonly priority: number;
  state: "ready" | "scheduled" | "active" | "done";
  runAtUs: bigint;
  leaseUs: bigint;
  fence: bigint;
}

/** A bucket: tokens at a reading of the clock. */
interface Bucket {
  tokens: Rational;
  filledUs: bigint;
}

/** A limit as it stands, or as a deleted one left it (`enforced` false). */
interface Limit {
  readonly rate: Rate;
  readonly enforced: boolean;
  readonly sinceUs: bigint;
}

export type Reason = "tokens" | "key_tokens" | "slots" | "key_slots" | "backed_off" | "empty";

export interface Expected {
  readonly ids: bigint[];
  /** Null when as many as asked started. */
  readonly answer: { readonly nextUs: bigint | null; readonly reasons: ReadonlySet<Reason> } | null;
}

// Math.max knows no bigint.
// biome-ignore-start lint/complexity/useMathMinMax: bigint
const max = (...values: bigint[]): bigint => values.reduce((a, b) => (b > a ? b : a));
const min = (...values: bigint[]): bigint => values.reduce((a, b) => (b < a ? b : a));
// biome-ignore-end lint/complexity/useMathMinMax: bigint
const intervalUs = (rate: Rate): bigint => BigInt(rate.intervalMs) * 1000n;
const whole = (n: number): Rational => ({ num: BigInt(n), den: 1n });
const floor = (r: Rational): bigint => r.num / r.den;
const less = (a: Rational, b: Rational): boolean => a.num * b.den < b.num * a.den;

function gcd(a: bigint, b: bigint): bigint {
  while (b > 0n) [a, b] = [b, a % b];
  return a;
}

function reduced(num: bigint, den: bigint): Rational {
  const divisor = gcd(num, den) || 1n;
  return { num: num / divisor, den: den / divisor };
}

function refill(bucket: Bucket, rate: Rate, nowUs: bigint): Bucket {
  if (nowUs <= bucket.filledUs) return bucket;
  const added = reduced((nowUs - bucket.filledUs) * BigInt(rate.limit), intervalUs(rate));
  const sum = reduced(bucket.tokens.num * added.den + added.num * bucket.tokens.den, bucket.tokens.den * added.den);
  return { tokens: less(sum, whole(rate.burst)) ? sum : whole(rate.burst), filledUs: nowUs };
}

/** The balance is kept in whole credits: 1 / intervalUs of a token. */
function redefine(bucket: Bucket, old: Limit, next: Rate, nowUs: bigint): Bucket {
  const full = refill(bucket, old.rate, nowUs);
  const filledUs = max(bucket.filledUs, nowUs);
  if (!old.enforced && !less(full.tokens, whole(old.rate.burst))) return { tokens: whole(next.burst), filledUs };
  const credits = (full.tokens.num * intervalUs(next)) / full.tokens.den;
  const carried = reduced(credits, intervalUs(next));
  return { tokens: less(carried, whole(next.burst)) ? carried : whole(next.burst), filledUs };
}

/** When a bucket holds one token, rounded up to a microsecond. */
function tokenUs(bucket: Bucket, rate: Rate): bigint {
  const missing = bucket.tokens.den - bucket.tokens.num;
  if (missing <= 0n) return bucket.filledUs;
  const perUs = BigInt(rate.limit) * bucket.tokens.den;
  return bucket.filledUs + (missing * intervalUs(rate) + perUs - 1n) / perUs;
}

/** One bucket with its limit's life: the queue's own, or one key's. */
class Meter {
  private bucket: Bucket | undefined;

  constructor(private readonly changes: readonly Limit[]) {}

  private applied = 0;

  /** Carries the bucket over every change that it has not seen. */
  private catchUp(): Bucket {
    while (this.applied < this.changes.length) {
      const next = this.changes[this.applied]!;
      const old = this.changes[this.applied - 1];
      this.bucket =
        this.bucket && old
          ? redefine(this.bucket, old, next.rate, next.sinceUs)
          : { tokens: whole(next.rate.burst), filledUs: next.sinceUs };
      this.applied += 1;
    }
    return this.bucket!;
  }

  at(nowUs: bigint): Bucket {
    return refill(this.catchUp(), this.changes[this.changes.length - 1]!.rate, nowUs);
  }

  spend(nowUs: bigint): void {
    const bucket = this.at(nowUs);
    this.bucket = { ...bucket, tokens: reduced(bucket.tokens.num - bucket.tokens.den, bucket.tokens.den) };
  }
}

/** One queue. All times in microseconds. */
export class ReferenceQueue {
  readonly jobs = new Map<bigint, ModelJob>();
  private readonly queueChanges: Limit[] = [];
  private readonly keyChanges: Limit[] = [];
  private queueMeter = new Meter(this.queueChanges);
  private readonly keyMeters = new Map<string, Meter>();
  private caps: { maxActive: number; maxActivePerKey: number | null } | null = null;
  private readonly backOffs = new Map<string, bigint>();
  private policy: string | null = null;
  private lastChangeUs = 0n;

  setRate(rate: Rate | null, perKey: Rate | null, nowUs: bigint): void {
    const policy = JSON.stringify([rate, perKey]);
    if (policy === this.policy || (rate === null && this.policy === null)) return;
    this.policy = rate === null ? null : policy;
    this.lastChangeUs = max(nowUs, this.lastChangeUs);
    this.change(this.queueChanges, rate);
    this.change(this.keyChanges, rate === null ? null : perKey);
  }

  private change(changes: Limit[], rate: Rate | null): void {
    const last = changes[changes.length - 1];
    if (rate === null && !last) return;
    changes.push({ rate: rate ?? last!.rate, enforced: rate !== null, sinceUs: this.lastChangeUs });
  }

  setCaps(caps: { maxActive: number; maxActivePerKey: number | null } | null): void {
    this.caps = caps;
  }

  backOff(key: string | null, untilUs: bigint | null): void {
    const name = key ?? "";
    if (untilUs === null) this.backOffs.delete(name);
    else this.backOffs.set(name, max(untilUs, this.backOffs.get(name) ?? 0n));
  }

  active(nowUs: bigint, key?: string | null): ModelJob[] {
    return [...this.jobs.values()].filter(
      (job) => job.state === "active" && job.leaseUs > nowUs && (key === undefined || job.key === key),
    );
  }

  private keyMeter(key: string): Meter {
    let meter = this.keyMeters.get(key);
    if (!meter) {
      meter = new Meter(this.keyChanges);
      this.keyMeters.set(key, meter);
    }
    return meter;
  }

  private static enforced(changes: readonly Limit[]): Rate | null {
    const last = changes[changes.length - 1];
    return last?.enforced ? last.rate : null;
  }

  /** When one axis allows a start; `nowUs` if it does now. */
  private queueGates(nowUs: bigint): { us: bigint; reason: Reason }[] {
    const gates: { us: bigint; reason: Reason }[] = [];
    const rate = ReferenceQueue.enforced(this.queueChanges);
    if (rate) {
      const bucket = this.queueMeter.at(nowUs);
      if (floor(bucket.tokens) < 1n) gates.push({ us: tokenUs(bucket, rate), reason: "tokens" });
    }
    if (this.caps) {
      const us = slotUs(this.active(nowUs), this.caps.maxActive);
      if (us !== null) gates.push({ us, reason: "slots" });
    }
    const closed = this.backOffs.get("") ?? 0n;
    if (closed > nowUs) gates.push({ us: closed, reason: "backed_off" });
    return gates;
  }

  private keyGates(key: string | null, nowUs: bigint): { us: bigint; reason: Reason }[] {
    if (key === null) return [];
    const gates: { us: bigint; reason: Reason }[] = [];
    const rate = ReferenceQueue.enforced(this.queueChanges) && ReferenceQueue.enforced(this.keyChanges);
    if (rate) {
      const bucket = this.keyMeter(key).at(nowUs);
      if (floor(bucket.tokens) < 1n) gates.push({ us: tokenUs(bucket, rate), reason: "key_tokens" });
    }
    if (this.caps?.maxActivePerKey) {
      const us = slotUs(this.active(nowUs, key), this.caps.maxActivePerKey);
      if (us !== null) gates.push({ us, reason: "key_slots" });
    }
    const closed = this.backOffs.get(key) ?? 0n;
    if (closed > nowUs) gates.push({ us: closed, reason: "backed_off" });
    return gates;
  }

  /** Ready jobs in the order in which they take their turn; due scheduled ones become ready. */
  private line(nowUs: bigint): ModelJob[] {
    for (const job of this.jobs.values()) {
      if (job.state === "scheduled" && job.runAtUs <= nowUs) job.state = "ready";
    }
    return [...this.jobs.values()]
      .filter((job) => job.state === "ready")
      .sort((a, b) => b.priority - a.priority || (a.id < b.id ? -1 : 1));
  }

  claim(most: number, leaseMs: number, nowUs: bigint): Expected {
    const ids: bigint[] = [];
    for (const job of this.line(nowUs)) {
      if (ids.length === most || this.queueGates(nowUs).length > 0) break;
      if (this.keyGates(job.key, nowUs).length > 0) continue;
      if (ReferenceQueue.enforced(this.queueChanges)) {
        this.queueMeter.spend(nowUs);
        if (job.key !== null && ReferenceQueue.enforced(this.keyChanges)) this.keyMeter(job.key).spend(nowUs);
      }
      job.state = "active";
      job.leaseUs = nowUs + BigInt(leaseMs) * 1000n;
      job.fence += 1n;
      ids.push(job.id);
    }
    return { ids, answer: ids.length === most ? null : this.answer(nowUs) };
  }

  private answer(nowUs: bigint): { nextUs: bigint | null; reasons: Set<Reason> } {
    const queue = this.queueGates(nowUs);
    const queueUs = max(nowUs, ...queue.map((gate) => gate.us));
    const ready = this.line(nowUs).map((job) => {
      const gates = this.keyGates(job.key, nowUs);
      return { us: max(nowUs, ...gates.map((gate) => gate.us)), gates };
    });
    const times = ready.map(({ us }) => max(us, queueUs));
    for (const job of this.jobs.values()) {
      if (job.state !== "scheduled") continue;
      times.push(max(queueUs, job.runAtUs, ...this.keyGates(job.key, nowUs).map((gate) => gate.us)));
    }
    const nextUs = times.length === 0 ? null : min(...times);
    const reasons = new Set<Reason>();
    if (ready.length === 0) reasons.add("empty");
    else {
      const firstUs = min(...ready.map(({ us }) => us));
      const queueHolds = queue.filter((gate) => gate.us === queueUs);
      if (queue.length > 0 && queueUs >= firstUs) for (const gate of queueHolds) reasons.add(gate.reason);
      else {
        for (const { us, gates } of ready) {
          if (us === firstUs) for (const gate of gates) if (gate.us === us) reasons.add(gate.reason);
        }
      }
    }
    return { nextUs, reasons };
  }
}

/** When the active jobs are fewer than a cap; null if they are now. */
function slotUs(active: readonly ModelJob[], cap: number): bigint | null {
  if (active.length < cap) return null;
  const expiries = active.map((job) => job.leaseUs).sort((a, b) => (a < b ? -1 : 1));
  return expiries[active.length - cap]!;
}
