// Writes src/files.generated.ts: the SQL files as text, so that the package works bundled, without a folder beside it.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** All .sql files below a folder as [path relative to it, text], ordered by path. */
function sqlFiles(folder) {
  return readdirSync(join(root, folder), { recursive: true })
    .map((name) => String(name).replaceAll("\\", "/"))
    .filter((name) => name.endsWith(".sql"))
    .sort()
    .map((name) => [name, readFileSync(join(root, folder, name), "utf8")]);
}

const entries = (files) =>
  files.map(([name, text]) => `  [${JSON.stringify(name)}, ${JSON.stringify(text)}],`).join("\n");
const target = join(root, "src/files.generated.ts");
const text = `// Generated from migrations/ and functions/ by scripts/embed.mjs.
export const migrationFiles: ReadonlyArray<readonly [name: string, text: string]> = [
${entries(sqlFiles("migrations"))}
];
export const functionFiles: ReadonlyArray<readonly [name: string, text: string]> = [
${entries(sqlFiles("functions"))}
];
`;
let previous;
try {
  previous = readFileSync(target, "utf8");
} catch {
  // not generated yet
}
if (previous !== text) writeFileSync(target, text);
