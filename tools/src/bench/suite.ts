/** A benchmark: prints what it measured, as ratios side by side in one run. */
export interface Suite {
  readonly name: string;
  /** One line for the list of benchmarks. */
  readonly about: string;
  run(options: SuiteOptions): Promise<void>;
}

export interface SuiteOptions {
  /** Rounds that count. */
  readonly rounds: number;
  readonly print: (line: string) => void;
}
