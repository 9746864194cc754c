import type { Diagnostics } from "./diagnostics";

/** Writes into Terraform's log; the levels are its own. No secrets. */
export interface Log {
  trace(message: string, fields?: LogFields): void;
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}
type LogFields = Readonly<Record<string, string | number | boolean | null>>;

/** What every function of a provider gets. */
export interface Context {
  /** Aborts when Terraform cancels the call, asks the provider to stop (Ctrl-C), or goes away. */
  readonly signal: AbortSignal;
  /** What to tell the person. An error among them makes the call fail. */
  readonly diagnostics: Diagnostics;
  readonly log: Log;
}

/** What functions that work with the outside get beside: what {@link Provider.configure} made. */
export interface ClientContext<C> extends Context {
  readonly client: C;
}

/** Bytes that Terraform keeps for a resource beside its state and shows to nobody. */
export interface PrivateState {
  get(): Uint8Array;
  set(bytes: Uint8Array): void;
}

export type Awaitable<T> = T | Promise<T>;
