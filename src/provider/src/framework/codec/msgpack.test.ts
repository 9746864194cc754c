import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { anyType, anyValue } from "../../../test/arbitraries";
import { Decimal } from "../values/decimal";
import { canonical } from "../values/equal";
import { Dynamic, type Type, t, typeFromJson, typeToJson, type Value } from "../values/types";
import { Unknown, unknown } from "../values/unknown";
import { CodecError } from "./errors";
import { decodeMsgpack, encodeMsgpack } from "./msgpack";

const hex = (text: string) => Buffer.from(text.replaceAll(" ", ""), "hex");
const typed = anyType.chain((type) => anyValue(type).map((value) => [type, value] as const));

describe("msgpack", () => {
  test("reads back every value it wrote, at every depth", () => {
    fc.assert(
      fc.property(typed, ([type, value]) => {
        const back = decodeMsgpack(encodeMsgpack(value, type), type);
        expect(canonical(type, back)).toBe(canonical(type, value));
      }),
      { numRuns: 1000 },
    );
  });

  test("types have a JSON form that reads back", () => {
    fc.assert(
      fc.property(anyType, (type) => expect(typeToJson(typeFromJson(typeToJson(type)))).toEqual(typeToJson(type))),
    );
  });

  // What Terraform itself puts on the wire, byte by byte.
  const wire: [name: string, type: Type, value: Value, bytes: string][] = [
    ["null", t.string, null, "c0"],
    ["text", t.string, "hi", "a2 6869"],
    ["a small number", t.number, 60, "3c"],
    ["a double", t.number, 0.5, "cb 3fe0000000000000"],
    ["a number no double holds, as digits", t.number, Decimal.parse("0.1"), "a3 302e31"],
    [
      "a number above 64 bits, as digits",
      t.number,
      Decimal.parse("18446744073709551617"),
      "b4 3138343436373434303733373039353531363137",
    ],
    ["a 64-bit integer", t.number, Decimal.parse("9007199254740993"), "cf 0020000000000001"],
    ["a negative 64-bit integer", t.number, Decimal.parse("-9007199254740993"), "d3 ffdfffffffffffff"],
    ["unknown", t.string, unknown, "d4 00 00"],
    ["unknown, but not null", t.string, new Unknown({ nullable: false }), "c7 03 0c 81 01 c2"],
    ["unknown, with a prefix", t.string, new Unknown({ stringPrefix: "ab" }), "c7 05 0c 81 02 a2 6162"],
    ["a dynamic value", t.dynamic, new Dynamic(t.bool, true), "92 c4 06 22626f6f6c22 c3"],
    ["an object", t.object({ a: t.bool, b: t.string }), { a: true, b: null }, "82 a1 61 c3 a1 62 c0"],
    ["a map", t.map(t.bool), new Map([["k", false]]), "81 a1 6b c2"],
    ["a list", t.list(t.string), ["a"], "91 a1 61"],
  ];
  test.each(wire)("%s", (_name, type, value, bytes) => {
    expect(Buffer.from(encodeMsgpack(value, type)).toString("hex")).toBe(hex(bytes).toString("hex"));
    expect(canonical(type, decodeMsgpack(hex(bytes), type))).toBe(canonical(type, value));
  });

  test("ignores refinements of the future", () => {
    expect(decodeMsgpack(hex("c7 05 0c 82 01 c2 7f 01"), t.string)).toEqual(new Unknown({ nullable: false }));
  });

  test("reads a float32 and every width of integer", () => {
    expect(decodeMsgpack(hex("ca 3fc00000"), t.number)).toBe(1.5);
    expect(decodeMsgpack(hex("cd 0100"), t.number)).toBe(256);
    expect(decodeMsgpack(hex("d0 ff"), t.number)).toBe(-1);
    expect(decodeMsgpack(hex("cf 0000000000000005"), t.number)).toBe(5);
  });

  test.each([
    ["cut off", "a5 61", t.string],
    ["another kind", "c3", t.string],
    ["a map for a list", "80", t.list(t.string)],
    ["a tuple of another length", "91 c3", t.tuple([t.bool, t.bool])],
    ["an infinite number", "cb 7ff0000000000000", t.number],
    ["a dynamic value of no type", "92 c4 01 78 c3", t.dynamic],
    ["nothing", "", t.string],
  ])("refuses %s", (_name, bytes, type) => {
    expect(() => decodeMsgpack(hex(bytes), type)).toThrow(CodecError);
  });

  test("any bytes either decode or are refused as such", () => {
    fc.assert(
      fc.property(anyType, fc.uint8Array({ maxLength: 64 }), (type, bytes) => {
        try {
          decodeMsgpack(bytes, type);
        } catch (error) {
          expect(error).toBeInstanceOf(CodecError);
        }
      }),
      { numRuns: 1000 },
    );
  });

  test("names where a value does not fit, and never quotes it", () => {
    const type = t.object({ policies: t.map(t.object({ limit: t.number })) });
    const bad = { policies: new Map([["mail", { limit: "secret" }]]) };
    expect(() => encodeMsgpack(bad, type)).toThrow('policies["mail"].limit: expected number, got a string');
    expect(() => encodeMsgpack({ a: 1 } as Value, t.object({}))).toThrow('the type has no attribute "a"');
  });
});
