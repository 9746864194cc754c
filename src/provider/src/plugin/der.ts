/** The few pieces of DER (X.690) that a certificate is made of. Each function returns one whole tag-length-value. */

function tlv(tag: number, ...content: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(content);
  const length: number[] = [];
  if (body.length < 0x80) {
    length.push(body.length);
  } else {
    for (let rest = body.length; rest > 0; rest = Math.floor(rest / 256)) length.unshift(rest % 256);
    length.unshift(0x80 | length.length);
  }
  return Buffer.concat([Uint8Array.of(tag, ...length), body]);
}

export const sequence = (...items: readonly Uint8Array[]): Buffer => tlv(0x30, ...items);
export const set = (...items: readonly Uint8Array[]): Buffer => tlv(0x31, ...items);
export const octetString = (content: Uint8Array): Buffer => tlv(0x04, content);
export const utf8String = (text: string): Buffer => tlv(0x0c, Buffer.from(text, "utf8"));
export const boolean = (value: boolean): Buffer => tlv(0x01, Uint8Array.of(value ? 0xff : 0x00));

/** A context-specific tag around items (`[n]`). */
export const explicit = (n: number, ...items: readonly Uint8Array[]): Buffer => tlv(0xa0 | n, ...items);

/** A context-specific tag in place of a primitive's own. */
export const implicit = (n: number, content: Uint8Array): Buffer => tlv(0x80 | n, content);

/** A bit string; `unused` is the number of unused bits in its last byte. */
export const bitString = (content: Uint8Array, unused = 0): Buffer => tlv(0x03, Uint8Array.of(unused), content);

/** A non-negative integer from its big-endian bytes, in DER's one shortest form. */
export function integer(bytes: Uint8Array): Buffer {
  let start = 0;
  while (start < bytes.length - 1 && bytes[start] === 0) start += 1;
  const shortest = bytes.subarray(start);
  // A set top bit would mean a negative number.
  return (shortest[0] ?? 0) >= 0x80 ? tlv(0x02, Uint8Array.of(0), shortest) : tlv(0x02, shortest);
}

/** An object identifier such as `2.5.29.17`. */
export function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  const bytes = [first * 40 + second];
  for (const part of rest) {
    const base128 = [part & 0x7f];
    for (let left = part >>> 7; left > 0; left >>>= 7) base128.unshift((left & 0x7f) | 0x80);
    bytes.push(...base128);
  }
  return tlv(0x06, Uint8Array.from(bytes));
}

/** A time, to the second: in the two-digit-year form up to 2049, as X.509 asks. */
export function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/[-:T]/g, "").slice(0, 14);
  return date.getUTCFullYear() < 2050
    ? tlv(0x17, Buffer.from(`${digits.slice(2)}Z`, "latin1"))
    : tlv(0x18, Buffer.from(`${digits}Z`, "latin1"));
}
