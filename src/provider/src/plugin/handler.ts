import { ProviderService } from "./generated/tfplugin6";
import type { Logger } from "./logger";

type Service = typeof ProviderService;

/** The name of a call of the protocol. */
export type Rpc = keyof Service;
export type Request<K extends Rpc> = ReturnType<Service[K]["requestDeserialize"]>;
export type Response<K extends Rpc> = ReturnType<Service[K]["responseDeserialize"]>;

/** What a handler gets beside the request. */
export interface Call {
  /** Aborts when Terraform cancels the call, asks the provider to stop, or goes away. */
  readonly signal: AbortSignal;
  readonly log: Logger;
}

export type Handler<K extends Rpc> = Service[K]["requestStream"] extends true
  ? (requests: AsyncIterable<Request<K>>, call: Call) => Promise<Response<K>>
  : Service[K]["responseStream"] extends true
    ? (request: Request<K>, call: Call) => AsyncIterable<Response<K>>
    : (request: Request<K>, call: Call) => Promise<Response<K>>;

/**
 * A provider, as the protocol sees it: one function a call. A call that is left out is answered with a clear error, and
 * so is one whose function throws. StopProvider is answered here, by aborting every call's signal.
 */
export type ProviderHandler = { readonly [K in Exclude<Rpc, "stopProvider">]?: Handler<K> } & {
  /** Releases what the provider holds (connections); called once, at the end. */
  close?(): Promise<void>;
};

/** A response with every field at its default but those given. */
export function response<K extends Rpc>(rpc: K, fields: Partial<Response<K>> = {}): Response<K> {
  return { ...(ProviderService[rpc].responseDeserialize(Buffer.alloc(0)) as Response<K>), ...fields };
}
