import { createPublicKey, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { describe, expect, test } from "@jest/globals";
import { createServerCertificate } from "./certificate";

describe("the server's certificate", () => {
  test("is what Terraform asks for: its own authority, for localhost", () => {
    const now = new Date("2031-05-06T07:08:09Z");
    const { der, certificatePem, privateKeyPem } = createServerCertificate(now);
    const certificate = new X509Certificate(certificatePem);
    expect(certificate.raw.equals(der)).toBe(true);
    expect(certificate.subject).toBe("CN=localhost");
    expect(certificate.subjectAltName).toBe("DNS:localhost");
    expect(certificate.ca).toBe(true);
    expect(certificate.checkHost("localhost")).toBe("localhost");
    expect(certificate.checkIssued(certificate)).toBe(true);
    expect(certificate.verify(certificate.publicKey)).toBe(true);
    expect(certificate.publicKey.asymmetricKeyDetails).toEqual({ namedCurve: "prime256v1" });
    expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]);
    expect(createPublicKey(privateKeyPem).equals(certificate.publicKey)).toBe(true);
    expect(new Date(certificate.validFrom).toISOString()).toBe("2031-05-06T06:08:09.000Z");
    expect(new Date(certificate.validTo).toISOString()).toBe("2032-05-05T07:08:09.000Z");
  });

  test("has years beyond 2049 in the long form", () => {
    const certificate = new X509Certificate(createServerCertificate(new Date("2049-12-31T00:00:00Z")).certificatePem);
    expect(new Date(certificate.validTo).toISOString()).toBe("2050-12-31T00:00:00.000Z");
  });

  // What is random in it (serial, signature, key) has lengths that vary; faults in few of them hide from small counts.
  test("is sound thousands of times", () => {
    const serials = new Set<string>();
    for (let i = 0; i < 3_000; i += 1) {
      const { certificatePem, privateKeyPem } = createServerCertificate();
      expect(certificatePem).not.toMatch(/\n\n/);
      const certificate = new X509Certificate(certificatePem);
      if (!certificate.verify(certificate.publicKey)) throw new Error(`not verified:\n${certificatePem}`);
      serials.add(certificate.serialNumber);
      if (i % 100 === 0) createSecureContext({ cert: certificatePem, key: privateKeyPem });
    }
    expect(serials.size).toBe(3_000);
  });
});
