/** What is to be done at the end, the latest first. */
export class CleanUp {
  readonly #tasks: (() => unknown)[] = [];

  add(task: () => unknown): void {
    this.#tasks.push(task);
  }

  /** Does it all, also after one of the tasks failed; then throws the first error. */
  async run(): Promise<void> {
    const errors: unknown[] = [];
    for (const task of this.#tasks.splice(0).reverse()) {
      try {
        await task();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}
