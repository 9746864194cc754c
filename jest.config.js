const { join } = require("node:path");

const sources = (folder) => join(__dirname, folder, "src");

/** Anchored: the clone itself may lie below a folder called dist. */
const BUILT = ["<rootDir>/dist/", "<rootDir>/(sql|tools|src/[^/]+)/dist/"];

/** @type {import("jest").Config} */
module.exports = {
  rootDir: __dirname,
  testEnvironment: "node",
  testMatch: ["**/*.test.ts"],
  // dist/ holds other builds of the same modules, under the same names.
  modulePathIgnorePatterns: BUILT,
  testPathIgnorePatterns: ["/node_modules/", ...BUILT, "\\.system\\.test\\.ts$"],
  transform: {
    "\\.ts$": [
      "@swc/jest",
      {
        jsc: { target: "es2022", parser: { syntax: "typescript" } },
        module: { type: "commonjs" },
        sourceMaps: "inline",
        swcrc: false,
      },
    ],
  },
  // The tests run on the sources; only the provider, which Terraform launches, is built.
  moduleNameMapper: {
    "^@workhorse/sql$": sources("sql"),
    "^@workhorse/(queue|worker)$": sources("src/$1"),
    "^@workhorse/tools$": sources("tools"),
  },
  globalSetup: join(__dirname, "test/support/global-setup.ts"),
  globalTeardown: join(__dirname, "test/support/global-teardown.ts"),
  cacheDirectory: join(__dirname, "node_modules/.cache/jest"),
  maxWorkers: 3,
  testTimeout: 60_000,
};
