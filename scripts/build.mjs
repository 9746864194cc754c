// Builds everything: the SQL as a module, the packages, and the provider as one executable file.
import { existsSync } from "node:fs";
import { chmod, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CommandError, runNode } from "./lib/process.mjs";
import { ROOT } from "./lib/root.mjs";

/** What Terraform runs. */
export const PROVIDER = join(ROOT, "dist/terraform-provider-workhorse");

/**
 * Builds what is out of date. Files that other runs may be using are replaced whole, and only if they changed.
 *
 * @param {{ onChild?: (pid: number | undefined) => void }} [options] Told of each process that works on the files.
 * @throws {CommandError} If a step fails; its output says why.
 */
export async function build(options = {}) {
  await embedSql(options);
  await runNode("The TypeScript compiler", [join(ROOT, "node_modules/typescript/bin/tsc"), "-b"], options);
  await bundleProvider();
}

/** Generates the module that carries the SQL files as text. */
export async function embedSql(options = {}) {
  await runNode("Embedding the SQL", [join(ROOT, "sql/scripts/embed.mjs")], options);
}

/** Bundles the provider with all it needs into one file that Terraform can launch. */
async function bundleProvider() {
  const entry = join(ROOT, "src/provider/src/main.ts");
  if (!existsSync(entry)) {
    throw new CommandError(`${entry} does not exist: there is no provider to build`);
  }
  const esbuild = await import("esbuild");
  const result = await esbuild
    .build({
      absWorkingDir: ROOT,
      entryPoints: [entry],
      bundle: true,
      write: false,
      platform: "node",
      target: "node20",
      format: "cjs",
      minify: true,
      legalComments: "eof",
      logLevel: "silent",
      banner: { js: "#!/usr/bin/env node" },
      // From the sources, so that what the provider does not use is left out.
      alias: { "@workhorse/sql": join(ROOT, "sql/src"), "@workhorse/queue": join(ROOT, "src/queue/src") },
      // pg looks for its native twin, and does without.
      external: ["pg-native"],
    })
    .catch((error) => {
      throw new CommandError(`Bundling the provider failed:\n${error.message}`);
    });
  await esbuild.stop();
  await replaceIfChanged(PROVIDER, result.outputFiles[0].contents);
}

/** Another run may be executing the file: it gets a new one under the same name, and only if it differs. */
async function replaceIfChanged(file, contents) {
  const folder = join(file, "..");
  const previous = await readFile(file).catch(() => undefined);
  if (previous?.equals(contents) && ((await stat(file)).mode & 0o777) === 0o755) {
    return;
  }
  await mkdir(folder, { recursive: true });
  for (const name of await readdir(folder)) {
    if (name.endsWith(".draft")) {
      await rm(join(folder, name)); // of a build that was killed
    }
  }
  const draft = `${file}.${process.pid}.draft`;
  await writeFile(draft, contents);
  await chmod(draft, 0o755);
  await rename(draft, file);
}
