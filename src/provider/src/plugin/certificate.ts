import { generateKeyPairSync, randomBytes, sign } from "node:crypto";
import {
  bitString,
  boolean,
  explicit,
  implicit,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  set,
  time,
  utf8String,
} from "./der";

export interface ServerCertificate {
  /** The certificate itself, DER: what the handshake line carries. */
  readonly der: Buffer;
  readonly certificatePem: string;
  readonly privateKeyPem: string;
}

const ECDSA_WITH_SHA256 = sequence(objectIdentifier("1.2.840.10045.4.3.2"));
const HOUR = 3_600_000;

/**
 * Makes a fresh self-signed P-256 certificate for `localhost` that is its own authority. Its key never leaves this
 * process, so it is valid for a year and never renewed.
 */
export function createServerCertificate(now: Date = new Date()): ServerCertificate {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const serial = randomBytes(16);
  // Positive and without a leading zero byte, whatever was drawn.
  serial[0] = 0x40 | (serial[0]! & 0x3f);
  const name = sequence(set(sequence(objectIdentifier("2.5.4.3"), utf8String("localhost"))));
  const critical = boolean(true);
  const extensions = sequence(
    // Basic constraints: an authority.
    sequence(objectIdentifier("2.5.29.19"), critical, octetString(sequence(boolean(true)))),
    // Key usage: digital signature (bit 0), certificate signing (bit 5).
    sequence(objectIdentifier("2.5.29.15"), critical, octetString(bitString(Uint8Array.of(0x84), 2))),
    // Extended key usage: server and client authentication.
    sequence(
      objectIdentifier("2.5.29.37"),
      octetString(sequence(objectIdentifier("1.3.6.1.5.5.7.3.1"), objectIdentifier("1.3.6.1.5.5.7.3.2"))),
    ),
    // Subject alternative name: DNS:localhost.
    sequence(objectIdentifier("2.5.29.17"), octetString(sequence(implicit(2, Buffer.from("localhost", "latin1"))))),
  );
  const toBeSigned = sequence(
    explicit(0, integer(Uint8Array.of(2))),
    integer(serial),
    ECDSA_WITH_SHA256,
    name,
    sequence(time(new Date(now.getTime() - HOUR)), time(new Date(now.getTime() + 365 * 24 * HOUR))),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    explicit(3, extensions),
  );
  const signature = sign("sha256", toBeSigned, { key: privateKey, dsaEncoding: "der" });
  const der = sequence(toBeSigned, ECDSA_WITH_SHA256, bitString(signature));
  return {
    der,
    certificatePem: pem("CERTIFICATE", der),
    privateKeyPem: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
  };
}

/** PEM with lines of 64 characters. An empty line, as a length of a multiple of 64 may leave, makes it unreadable. */
function pem(label: string, der: Buffer): string {
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ""].join("\n");
}
