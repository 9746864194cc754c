import {
  type ClientContext,
  type Context,
  type Diagnostic,
  DiagnosticError,
  Diagnostics,
  type Log,
  type Provider,
} from "../framework";
import { CodecError } from "../framework/codec/errors";
import type { Diagnostic as WireDiagnostic } from "../plugin/generated/tfplugin6";
import type { Call } from "../plugin/handler";
import { Redactor } from "./redactor";
import { wireDiagnostic } from "./wire-values";

export interface Outcome<T> {
  /** What the work returned; undefined when it threw. */
  readonly result: T | undefined;
  readonly failed: boolean;
  readonly diagnostics: WireDiagnostic[];
}

/** One provider in one process: its client, once configured, and its secrets. */
export class Session<C> {
  readonly redactor = new Redactor();
  #client: { readonly value: C } | undefined;

  constructor(readonly provider: Provider<C>) {}

  /** Takes a client into use, and releases the one before. */
  async adopt(client: C): Promise<void> {
    const before = this.#client;
    this.#client = { value: client };
    if (before !== undefined) await this.provider.close?.(before.value);
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    if (client !== undefined) await this.provider.close?.(client.value);
  }

  /** Adds the client to a context. @throws DiagnosticError when the provider is not configured. */
  withClient(context: Context): ClientContext<C> {
    if (this.#client === undefined) {
      throw DiagnosticError.of(
        "The provider is not configured",
        "Terraform asked for work before it configured the provider. Please report this.",
      );
    }
    return { ...context, client: this.#client.value };
  }

  /** Does one call's work. Whatever it throws becomes a diagnostic. */
  async attempt<T>(call: Call, work: (context: Context) => T | Promise<T>): Promise<Outcome<T>> {
    const diagnostics = new Diagnostics();
    let result: T | undefined;
    try {
      result = await work({ signal: call.signal, diagnostics, log: this.#log(call.log) });
    } catch (error) {
      diagnostics.add(...this.#explain(error, call));
    }
    return {
      result,
      failed: diagnostics.hasErrors,
      diagnostics: diagnostics.list.map((diagnostic) => wireDiagnostic(diagnostic, this.redactor)),
    };
  }

  #explain(error: unknown, call: Call): readonly Diagnostic[] {
    if (error instanceof DiagnosticError) return error.diagnostics;
    if (call.signal.aborted) {
      const reason = call.signal.reason instanceof Error ? call.signal.reason.message : "the call was cancelled";
      return [{ severity: "error", summary: "Interrupted", detail: `The work was not finished: ${reason}.` }];
    }
    const known = this.provider.explain?.(error);
    if (known !== undefined) return [known];
    if (error instanceof CodecError) {
      return [{ severity: "error", summary: "Unreadable value", detail: error.message, path: error.path }];
    }
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    const stack = error instanceof Error ? (error.stack ?? "") : "";
    this.#log(call.log).error("unexpected exception", { stack });
    return [
      {
        severity: "error",
        summary: "The provider failed unexpectedly",
        detail: `${text}\n\nThis is a fault of the provider: please report it with the log of TF_LOG=debug.`,
      },
    ];
  }

  #log(log: Log): Log {
    const clean = (fields: Readonly<Record<string, string | number | boolean | null>> | undefined) =>
      fields === undefined
        ? undefined
        : Object.fromEntries(
            Object.entries(fields).map(([key, value]) => [
              key,
              typeof value === "string" ? this.redactor.redact(value) : value,
            ]),
          );
    const at =
      (level: keyof Log): Log[keyof Log] =>
      (message, fields) =>
        log[level](this.redactor.redact(message), clean(fields));
    return { trace: at("trace"), debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  }
}
