import type { Path } from "./path";

/** One message for the person who runs Terraform. */
export interface Diagnostic {
  readonly severity: "error" | "warning";
  /** One line. Terraform folds warnings with the same summary together, so it names what it is about. */
  readonly summary: string;
  /** What was found, what is accepted, and what to do. */
  readonly detail: string;
  /** The attribute at fault, if one is. */
  readonly path?: Path;
}

/** Collects what one call has to say. An error among them makes the call fail. */
export class Diagnostics {
  readonly #list: Diagnostic[] = [];

  get list(): readonly Diagnostic[] {
    return this.#list;
  }

  get hasErrors(): boolean {
    return this.#list.some((d) => d.severity === "error");
  }

  error(summary: string, detail: string, path?: Path): void {
    this.add({ severity: "error", summary, detail, ...(path === undefined ? {} : { path }) });
  }

  warning(summary: string, detail: string, path?: Path): void {
    this.add({ severity: "warning", summary, detail, ...(path === undefined ? {} : { path }) });
  }

  add(...diagnostics: readonly Diagnostic[]): void {
    this.#list.push(...diagnostics);
  }
}

/** Ends a call with diagnostics: for code deep below that cannot go on. */
export class DiagnosticError extends Error {
  readonly diagnostics: readonly Diagnostic[];

  constructor(...diagnostics: readonly Diagnostic[]) {
    super(diagnostics.map((d) => d.summary).join("; "));
    this.name = "DiagnosticError";
    this.diagnostics = diagnostics;
  }

  /** An error diagnostic to throw. */
  static of(summary: string, detail: string, path?: Path): DiagnosticError {
    return new DiagnosticError({ severity: "error", summary, detail, ...(path === undefined ? {} : { path }) });
  }
}
