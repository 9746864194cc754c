import type { Diagnostic, Path, Type, Value } from "../framework";
import { CodecError } from "../framework/codec/errors";
import { decodeJson } from "../framework/codec/json";
import { decodeMsgpack, encodeMsgpack } from "../framework/codec/msgpack";
import {
  type AttributePath,
  Diagnostic_Severity,
  type DynamicValue,
  type Diagnostic as WireDiagnostic,
} from "../plugin/generated/tfplugin6";
import type { Redactor } from "./redactor";

/** Reads a value of the wire. Absent means null. */
export function decodeValue(value: DynamicValue | undefined, type: Type): Value {
  if (value === undefined) return null;
  if (value.msgpack.length > 0) return decodeMsgpack(value.msgpack, type);
  if (value.json.length > 0) return decodeJson(value.json.toString("utf8"), type);
  throw new CodecError([], "a value without any bytes");
}

export function encodeValue(value: Value, type: Type): DynamicValue {
  return { msgpack: Buffer.from(encodeMsgpack(value, type)), json: Buffer.alloc(0) };
}

export function wirePath(path: Path): AttributePath {
  return {
    steps: path.map((step) => ({
      selector:
        "attribute" in step
          ? { $case: "attributeName", attributeName: step.attribute }
          : "key" in step
            ? { $case: "elementKeyString", elementKeyString: step.key }
            : { $case: "elementKeyInt", elementKeyInt: step.index },
    })),
  };
}

export function wireDiagnostic(diagnostic: Diagnostic, redactor: Redactor): WireDiagnostic {
  return {
    severity: diagnostic.severity === "error" ? Diagnostic_Severity.ERROR : Diagnostic_Severity.WARNING,
    summary: redactor.redact(diagnostic.summary),
    detail: redactor.redact(diagnostic.detail),
    attribute: diagnostic.path === undefined ? undefined : wirePath(diagnostic.path),
  };
}
