/**
 * A number as Terraform writes it: exact at any size and scale. A value that a double holds exactly is a plain
 * JavaScript number; any other is a {@link Decimal}.
 */
export type Numeric = number | Decimal;

/** Longest chain of digits accepted: a guard against `1e999999999`, far above what Terraform itself keeps. */
const MAX_DIGITS = 20_000;

const NUMBER = /^([+-]?)(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/;

/** An exact decimal number, `coefficient * 10^exponent`, without trailing zeros in the coefficient. */
export class Decimal {
  private constructor(
    readonly coefficient: bigint,
    readonly exponent: number,
  ) {}

  /**
   * Reads decimal digits with an optional fraction and exponent.
   * @throws RangeError when the text is no finite decimal number, or has more than 20,000 digits.
   */
  static parse(text: string): Decimal {
    const match = NUMBER.exec(text);
    if (match === null) throw new RangeError(`not a decimal number: ${JSON.stringify(text.slice(0, 40))}`);
    const [, sign, whole = "", fraction = "", exponentText = "0"] = match;
    const exponent = Number(exponentText) - fraction.length;
    if (whole.length + fraction.length > MAX_DIGITS || Math.abs(exponent) > MAX_DIGITS) {
      throw new RangeError(`a number of more than ${MAX_DIGITS} digits is not supported`);
    }
    const digits = BigInt(whole + fraction);
    return Decimal.of(sign === "-" ? -digits : digits, exponent);
  }

  /** The exact value of a finite double (a double is a binary fraction, so its decimal expansion ends). */
  static fromNumber(value: number): Decimal {
    if (!Number.isFinite(value)) throw new RangeError(`${value} is not a finite number`);
    if (Number.isInteger(value)) return Decimal.of(BigInt(value), 0);
    let scaled = value;
    let halvings = 0;
    while (!Number.isInteger(scaled)) {
      scaled *= 2;
      halvings += 1;
    }
    return Decimal.of(BigInt(scaled) * 5n ** BigInt(halvings), -halvings);
  }

  static of(coefficient: bigint, exponent: number): Decimal {
    if (coefficient === 0n) return new Decimal(0n, 0);
    let c = coefficient;
    let e = exponent;
    // Large powers first, so that a number of thousands of zeros is not divided thousands of times.
    for (const step of [1024, 32, 1]) {
      const power = 10n ** BigInt(step);
      while (c % power === 0n) {
        c /= power;
        e += step;
      }
    }
    return new Decimal(c, e);
  }

  get isInteger(): boolean {
    return this.exponent >= 0;
  }

  equals(other: Decimal): boolean {
    return this.coefficient === other.coefficient && this.exponent === other.exponent;
  }

  /** Negative, zero or positive, as this number is below, equal to or above the other. */
  compare(other: Decimal): number {
    const exponent = Math.min(this.exponent, other.exponent);
    const a = this.coefficient * 10n ** BigInt(this.exponent - exponent);
    const b = other.coefficient * 10n ** BigInt(other.exponent - exponent);
    return a < b ? -1 : a > b ? 1 : 0;
  }

  /** The integer value; only for {@link isInteger} numbers. */
  toBigInt(): bigint {
    if (!this.isInteger) throw new RangeError(`${this.toString()} is not an integer`);
    return this.coefficient * 10n ** BigInt(this.exponent);
  }

  /** Nearest double. */
  toNumber(): number {
    return Number(`${this.coefficient}e${this.exponent}`);
  }

  /** Plain digits, without an exponent: the form Terraform's wire takes. */
  toString(): string {
    if (this.exponent >= 0) return this.coefficient.toString() + "0".repeat(this.exponent);
    const negative = this.coefficient < 0n;
    const digits = (negative ? -this.coefficient : this.coefficient).toString().padStart(1 - this.exponent, "0");
    const point = digits.length + this.exponent;
    return `${negative ? "-" : ""}${digits.slice(0, point)}.${digits.slice(point)}`;
  }

  toJSON(): string {
    return this.toString();
  }
}

/** Brings a number into its one canonical form (see {@link Numeric}). @throws RangeError when it is not finite. */
export function numeric(value: number | bigint | string | Decimal): Numeric {
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new RangeError("an infinite number is not supported");
    return value === 0 ? 0 : value;
  }
  const decimal =
    typeof value === "string" ? Decimal.parse(value) : typeof value === "bigint" ? Decimal.of(value, 0) : value;
  const double = decimal.toNumber();
  return Number.isFinite(double) && Decimal.fromNumber(double).equals(decimal) ? double : decimal;
}

/** The exact decimal of a number in either form. */
export function decimalOf(value: Numeric): Decimal {
  return typeof value === "number" ? Decimal.fromNumber(value) : value;
}
