import fc from "fast-check";
import {
  Decimal,
  Dynamic,
  numeric,
  type ObjectValue,
  type Type,
  t,
  Unknown,
  unknown,
  type Value,
} from "../src/framework";

/** Numbers of every form the wire has: small and 64-bit integers, doubles, and digits that fit neither. */
export const anyNumeric = fc.oneof(
  fc.integer(),
  fc.maxSafeInteger(),
  fc.bigInt({ min: -(2n ** 64n), max: 2n ** 65n }).map(numeric),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map(numeric),
  fc
    .tuple(fc.bigInt({ min: -(10n ** 80n), max: 10n ** 80n }), fc.integer({ min: -90, max: 90 }))
    .map(([c, e]) => numeric(Decimal.of(c, e))),
);

export const anyText = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.constantFrom("", "__proto__", "constructor", "10", ".", "\0", "\u{1F600}", 'a"b', "a\nb"),
);

const attributeName = fc.constantFrom("a", "b", "limit", "__proto__", "toString");

/** Any type, a few levels deep. */
export const anyType: fc.Arbitrary<Type> = fc.letrec<{ type: Type }>((tie) => ({
  type: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.constantFrom<Type>(t.string, t.number, t.bool, t.dynamic),
    tie("type").map((element) => t.list(element)),
    tie("type").map((element) => t.set(element)),
    tie("type").map((element) => t.map(element)),
    fc.array(tie("type"), { maxLength: 3 }).map((elements) => t.tuple(elements)),
    fc.uniqueArray(fc.tuple(attributeName, tie("type")), { selector: ([name]) => name, maxLength: 3 }).map((pairs) => {
      const attributes: Record<string, Type> = Object.create(null);
      for (const [name, type] of pairs) attributes[name] = type;
      return t.object(attributes);
    }),
  ),
})).type;

const refinedUnknown = fc.oneof(
  fc.constant(unknown),
  fc.constant(new Unknown({ nullable: false })),
  fc.string().map((stringPrefix) => new Unknown({ nullable: false, stringPrefix })),
  fc.tuple(anyNumeric, fc.boolean()).map(([value, inclusive]) => new Unknown({ numberMin: { value, inclusive } })),
  fc
    .tuple(anyNumeric, fc.nat())
    .map(([value, lengthMax]) => new Unknown({ numberMax: { value, inclusive: true }, lengthMin: 0, lengthMax })),
);

/** Any value of a type: nulls and unknowns at every depth. */
export function anyValue(type: Type, depth = 0): fc.Arbitrary<Value> {
  const known = knownValue(type, depth);
  const unknowns = type.kind === "dynamic" ? fc.constant(unknown) : refinedUnknown;
  return fc.oneof(
    { arbitrary: known, weight: 8 },
    { arbitrary: fc.constant(null), weight: 1 },
    { arbitrary: unknowns, weight: 1 },
  );
}

function knownValue(type: Type, depth: number): fc.Arbitrary<Value> {
  const many = { maxLength: 3 };
  switch (type.kind) {
    case "string":
      return anyText;
    case "bool":
      return fc.boolean();
    case "number":
      return anyNumeric;
    case "integer":
      return fc.maxSafeInteger();
    case "list":
    case "set":
      return fc.array(anyValue(type.element, depth + 1), many);
    case "map":
      return fc
        .uniqueArray(fc.tuple(anyText, anyValue(type.element, depth + 1)), { ...many, selector: ([key]) => key })
        .map((entries) => new Map(entries));
    case "tuple":
      return fc.tuple(...type.elements.map((element) => anyValue(element, depth + 1)));
    case "object": {
      const names = Object.keys(type.attributes);
      return fc.tuple(...names.map((name) => anyValue(type.attributes[name]!, depth + 1))).map((values) => {
        const object: Record<string, Value> = Object.create(null);
        for (const [i, name] of names.entries()) object[name] = values[i]!;
        return object as ObjectValue;
      });
    }
    case "dynamic":
      if (depth > 2) return fc.string().map((text) => new Dynamic(t.string, text));
      return fc
        .constantFrom<Type>(t.string, t.list(t.number), t.object({ a: t.bool }))
        .chain((inner) => anyValue(inner, depth + 1).map((value) => new Dynamic(inner, value)));
  }
}
