import type { Awaitable } from "./context";
import type { Type, Value, ValueOf } from "./values/types";
import type { Unknown } from "./values/unknown";

export interface Parameter<T extends Type = Type> {
  readonly name: string;
  readonly type: T;
  readonly description: string;
  /** Whether null may be passed; otherwise Terraform refuses it. Default false. */
  readonly allowNull?: boolean;
  /** Whether the function is called before this argument is known. Default false: the result is then unknown. */
  readonly allowUnknown?: boolean;
}

/** A refusal of a function's arguments. */
export class FunctionError extends Error {
  constructor(
    message: string,
    /** Position of the argument at fault, from 0. */
    readonly argument?: number,
  ) {
    super(message);
    this.name = "FunctionError";
  }
}

/** A function that configurations call as `provider::workhorse::name(...)`. It depends on its arguments alone. */
export interface ProviderFunction {
  readonly name: string;
  readonly summary: string;
  /** Markdown. */
  readonly description: string;
  readonly deprecated?: string;
  readonly parameters: readonly Parameter[];
  /** Takes all arguments that are left. Absent = there may be none. */
  readonly variadic?: Parameter;
  readonly returns: Type;
  run(args: readonly Value[]): Awaitable<Value>;
}

type Argument<P extends Parameter> =
  | ValueOf<P["type"], P["allowUnknown"] extends true ? Unknown : never>
  | (P["allowNull"] extends true ? null : never)
  | (P["allowUnknown"] extends true ? Unknown : never);
type Arguments<P extends readonly Parameter[]> = { readonly [K in keyof P]: Argument<P[K]> };

/** Infers a function's types from its parameters; further arguments of a variadic one follow the fixed ones. */
export function defineFunction<const P extends readonly Parameter[], R extends Type>(
  declaration: Omit<ProviderFunction, "parameters" | "returns" | "run"> & {
    readonly parameters: P;
    readonly returns: R;
    run(args: Arguments<P> & readonly unknown[]): Awaitable<ValueOf<R, Unknown> | null | Unknown>;
  },
): ProviderFunction {
  return declaration as unknown as ProviderFunction;
}
