import { demonstrate } from "./demonstration";
import { InterruptedError, Interrupts } from "./interrupts";
import { parseOptions, type StartOptions, USAGE, UsageError } from "./options";
import { Screen } from "./screen";

const USAGE_STATUS = 2;

async function main(): Promise<number> {
  const options = understood(process.argv.slice(2));
  if (typeof options === "number") return options;
  const screen = new Screen(process.stdout, process.env);
  const interrupts = new Interrupts();
  process.stdout.on("error", () => interrupts.request()); // nobody reads any more
  try {
    const allowed = await demonstrate(options, screen, interrupts);
    if (!allowed) console.error("npm start: something started that the policies do not allow; see NOT OK above");
    return allowed ? 0 : 1;
  } catch (error) {
    if (interrupts.status !== undefined) {
      // Without --once, Ctrl-C is how it ends.
      if (error instanceof InterruptedError && !options.once && interrupts.received === "SIGINT") return 0;
      if (!(error instanceof InterruptedError)) console.error(`npm start, when it was interrupted: ${message(error)}`);
      return interrupts.status;
    }
    console.error(`npm start: ${message(error)}`);
    return 1;
  } finally {
    interrupts.dispose();
  }
}

function understood(args: readonly string[]): StartOptions | number {
  try {
    const options = parseOptions(args);
    if (options !== "help") return options;
    console.log(USAGE);
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(`${error.message}\n\n${USAGE}`);
    return USAGE_STATUS;
  }
}

const message = (error: unknown): string => (error instanceof Error ? error.message : String(error));

main().then(
  (status) => {
    process.exitCode = status;
  },
  (error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  },
);
