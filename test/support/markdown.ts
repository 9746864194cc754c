import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { REPOSITORY } from "./repository";

const foldersIn = (folder: string): string[] =>
  readdirSync(join(REPOSITORY, folder), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !/^\.|^(node_modules|dist)$/.test(entry.name))
    .map(({ name }) => join(folder, name));

/** The repository's README and those of its folders, two levels deep, as paths relative to the repository. */
export function readmes(): string[] {
  const top = foldersIn("");
  return ["", ...top, ...top.flatMap(foldersIn)]
    .map((folder) => join(folder, "README.md"))
    .filter((file) => existsSync(join(REPOSITORY, file)));
}

export const readReadme = (file: string): string => readFileSync(join(REPOSITORY, file), "utf8");

/** The code blocks of a language in a Markdown text. */
export function fences(markdown: string, language: string): string[] {
  const blocks = markdown.matchAll(/^```(\S*)\n(.*?)^```$/gms);
  return [...blocks].filter(([, tag]) => tag === language).map(([, , code]) => code!);
}

/** A line of output without what differs from run to run: two runs print the same shapes. */
export function shape(line: string): string {
  return line
    .trim()
    .replace(/next start (slot|now|-|[\d.]+ s)/, "next start T")
    .replace(/\d[\d,.]*/g, "N");
}
