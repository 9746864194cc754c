import type { Rate } from "./calls";

/**
 * What semantics promise of buckets, in exact rationals: a bucket fills at limit per interval up to burst; a change carries its
 * tokens over, rounded down to 1/intervalUs of a token of the new definition and cut to its burst; a deleted limit's bucket
 * goes on filling and is taken over unless it is full by then, as a new one is.
 */

/** A limit since a reading of the clock; `enforced` false: deleted, with the definition that it had. */
interface Change {
  readonly rate: Rate;
  readonly enforced: boolean;
  readonly us: bigint;
}

const intervalUs = (rate: Rate): bigint => BigInt(rate.intervalMs) * 1000n;
const greatest = (a: bigint, b: bigint): bigint => (a > b ? a : b);
function gcd(a: bigint, b: bigint): bigint {
  return b === 0n ? a : gcd(b, a % b);
}
const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);

/** The life of a limit: of a queue, or of all keys of a queue. */
export class IdealLimit {
  readonly changes: Change[] = [];

  get current(): Change | undefined {
    return this.changes.at(-1);
  }

  get enforced(): Rate | null {
    return this.current?.enforced ? this.current.rate : null;
  }

  /** Null: deleted. */
  define(rate: Rate | null, us: bigint): void {
    if (rate || this.current) this.changes.push({ rate: rate ?? this.current!.rate, enforced: rate !== null, us });
  }
}

/** Tokens, num / den, at a reading of the clock. */
interface Balance {
  readonly num: bigint;
  readonly den: bigint;
  readonly us: bigint;
}

function fill(balance: Balance, rate: Rate, us: bigint): Balance {
  if (us <= balance.us) return balance;
  // num/den + elapsed * limit / interval
  const den = balance.den * intervalUs(rate);
  const num = balance.num * intervalUs(rate) + (us - balance.us) * BigInt(rate.limit) * balance.den;
  return { num: least(num, BigInt(rate.burst) * den), den, us };
}

function carry(balance: Balance, old: Change, next: Change): Balance {
  const { num, den, us } = fill(balance, old.rate, next.us);
  const full = BigInt(next.rate.burst) * intervalUs(next.rate);
  const startsAnew = !old.enforced && num === BigInt(old.rate.burst) * den;
  const credits = (num * intervalUs(next.rate)) / den;
  return { num: startsAnew ? full : least(credits, full), den: intervalUs(next.rate), us };
}

/** One bucket under such a limit. A bucket that was never drawn from is there since the limit's first change. */
export class IdealBucket {
  private balance: Balance = { num: 0n, den: 1n, us: 0n };
  private seen = 0;

  constructor(private readonly limit: IdealLimit) {}

  /** What it holds at that time. Looking leaves no trace: only a start, or a change of the limit, is a reading that counts. */
  private at(us: bigint): Balance {
    const { changes } = this.limit;
    for (; this.seen < changes.length; this.seen++) {
      const [old, next] = [changes[this.seen - 1], changes[this.seen]!];
      this.balance = old ? carry(this.balance, old, next) : { num: BigInt(next.rate.burst), den: 1n, us: next.us };
    }
    return fill(this.balance, this.limit.current!.rate, us);
  }

  /** Whole tokens. */
  tokens(us: bigint): number {
    const { num, den } = this.at(us);
    return Number(num / den);
  }

  /** Reads the bucket for good and takes that many tokens. */
  spend(count: number, us: bigint): void {
    const balance = this.at(us);
    const num = balance.num - BigInt(count) * balance.den;
    // In lowest terms, or a long history makes large numbers.
    const divisor = gcd(num, balance.den);
    this.balance = { num: num / divisor, den: balance.den / divisor, us: balance.us };
  }

  /** When it holds a whole token, rounded up to a microsecond. */
  tokenUs(us: bigint): bigint {
    const { num, den, us: readUs } = this.at(us);
    if (num >= den) return us;
    const { rate } = this.limit.current!;
    const speed = BigInt(rate.limit) * den;
    return readUs + ((den - num) * intervalUs(rate) + speed - 1n) / speed;
  }
}

/** One queue with its limit, the limit per key, and all their buckets. */
export class IdealQueue {
  private readonly limit = new IdealLimit();
  private readonly keyLimit = new IdealLimit();
  private readonly bucket = new IdealBucket(this.limit);
  private readonly keys = new Map<string, IdealBucket>();
  private policy = "";
  private lastUs = 0n;

  /** A sync of the queue's policy at a reading of the clock; null removes it. */
  define(policy: { rate: Rate; perKey: Rate | null } | null, us: bigint): void {
    const text = policy ? JSON.stringify([policy.rate, policy.perKey]) : "";
    if (text === this.policy) return;
    this.policy = text;
    // A change never lies before the one that it follows, whatever the clock says.
    this.lastUs = greatest(us, this.lastUs);
    this.limit.define(policy?.rate ?? null, this.lastUs);
    this.keyLimit.define(policy?.perKey ?? null, this.lastUs);
  }

  /** Whole tokens in the queue's bucket; null without a limit. */
  available(us: bigint): number | null {
    return this.limit.enforced ? this.bucket.tokens(us) : null;
  }

  /**
   * A claim of jobs that all have this key (null: none): how many start, and when the next could (null: all have).
   */
  claim(key: string | null, asked: number, us: bigint): { started: number; nextUs: bigint | null } {
    if (!this.limit.enforced) return { started: asked, nextUs: null };
    const buckets = [this.bucket];
    if (key !== null && this.keyLimit.enforced) buckets.push(this.keyBucket(key));
    const started = Math.min(asked, ...buckets.map((bucket) => bucket.tokens(us)));
    if (started > 0) for (const bucket of buckets) bucket.spend(started, us);
    if (started === asked) return { started, nextUs: null };
    return { started, nextUs: buckets.map((bucket) => bucket.tokenUs(us)).reduce(greatest, us) };
  }

  /** A claim that started nothing wrote its reading of the queue's bucket down all the same. */
  noteReading(us: bigint): void {
    this.bucket.spend(0, us);
  }

  private keyBucket(key: string): IdealBucket {
    const bucket = this.keys.get(key) ?? new IdealBucket(this.keyLimit);
    this.keys.set(key, bucket);
    return bucket;
  }
}
