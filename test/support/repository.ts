import { resolve } from "node:path";

/** The repository's folder. */
export const REPOSITORY = resolve(__dirname, "../..");
