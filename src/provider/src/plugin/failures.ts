import { type Diagnostic, Diagnostic_Severity } from "./generated/tfplugin6";
import { type Response, type Rpc, response } from "./handler";

/** A failed call's answer: an error in the place where that call's response has one. */
export function failure<K extends Rpc>(rpc: K, summary: string, detail: string): Response<K> {
  const diagnostic: Diagnostic = { severity: Diagnostic_Severity.ERROR, summary, detail };
  switch (rpc) {
    case "callFunction":
      return response("callFunction", { error: { text: `${summary}: ${detail}` } }) as Response<K>;
    case "listResource":
      return response("listResource", { diagnostic: [diagnostic] }) as Response<K>;
    case "invokeAction":
      return response("invokeAction", {
        type: { $case: "completed", completed: { diagnostics: [diagnostic] } },
      }) as Response<K>;
    case "stopProvider":
      return response("stopProvider", { Error: `${summary}: ${detail}` }) as Response<K>;
    default:
      // Every other response has its diagnostics under this name (a test holds it so).
      return response(rpc, { diagnostics: [diagnostic] } as unknown as Partial<Response<K>>);
  }
}

export function notOffered<K extends Rpc>(rpc: K): Response<K> {
  const name = rpc.charAt(0).toUpperCase() + rpc.slice(1);
  return failure(rpc, "Not offered by this provider", `This provider does not offer the call ${name}.`);
}

/** For an exception that came out of a handler: its text may hold anything, so only its kind is told. */
export function unexpected<K extends Rpc>(rpc: K, error: unknown): Response<K> {
  const kind = error instanceof Error ? error.name : typeof error;
  return failure(
    rpc,
    "The provider failed unexpectedly",
    `An exception (${kind}) came out of the call ${rpc}. This is a fault of the provider: please report it with the log of TF_LOG=debug.`,
  );
}
