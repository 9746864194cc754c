import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { anyNumeric } from "../../../test/arbitraries";
import { Decimal, decimalOf, numeric } from "./decimal";

describe("Decimal", () => {
  test("keeps every digit", () => {
    const digits = "-123456789012345678901234567890.0000000000000000000000012345";
    expect(Decimal.parse(digits).toString()).toBe(digits);
    expect(Decimal.parse("1e3").toString()).toBe("1000");
    expect(Decimal.parse("00.10").toString()).toBe("0.1");
    expect(Decimal.parse("-0").toString()).toBe("0");
  });

  test("reads back what it wrote", () => {
    fc.assert(
      fc.property(anyNumeric, (value) => {
        const decimal = decimalOf(value);
        expect(Decimal.parse(decimal.toString()).equals(decimal)).toBe(true);
        expect(numeric(decimal.toString())).toEqual(value);
      }),
    );
  });

  test("is exactly the double it is made from", () => {
    // 0.1 is a binary fraction a little above a tenth.
    expect(Decimal.fromNumber(0.1).toString()).toBe("0.1000000000000000055511151231257827021181583404541015625");
    expect(Decimal.fromNumber(5e-324).toString()).toHaveLength(1076);
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(Decimal.fromNumber(value).toNumber() === value).toBe(true);
      }),
    );
  });

  test("is a plain number only where a double is exact", () => {
    expect(numeric("60")).toBe(60);
    expect(numeric("0.5")).toBe(0.5);
    expect(numeric("0.1")).toBeInstanceOf(Decimal);
    expect(numeric(2n ** 53n + 1n)).toBeInstanceOf(Decimal);
    expect(numeric(2n ** 60n)).toBe(2 ** 60);
    expect(Object.is(numeric(-0), 0)).toBe(true);
  });

  test("compares as rational numbers do", () => {
    const rational = (decimal: Decimal) => {
      const [whole = "", fraction = ""] = decimal.toString().split(".");
      return BigInt(whole + fraction.padEnd(1200, "0"));
    };
    fc.assert(
      fc.property(anyNumeric, anyNumeric, (a, b) => {
        const [x, y] = [decimalOf(a), decimalOf(b)];
        const [p, q] = [rational(x), rational(y)];
        expect(Math.sign(x.compare(y))).toBe(p < q ? -1 : p > q ? 1 : 0);
      }),
    );
  });

  test.each(["", "x", "1.2.3", "0x10", "Infinity", "NaN", "1e99999999", "9".repeat(20_001)])("refuses %j", (text) => {
    expect(() => Decimal.parse(text)).toThrow(RangeError);
  });

  test("refuses what is not finite", () => {
    expect(() => numeric(Number.POSITIVE_INFINITY)).toThrow(RangeError);
    expect(() => numeric(Number.NaN)).toThrow(RangeError);
  });
});
