const base = require("./jest.config");

/**
 * The tests that need a package of the operating system, such as a browser or a pooler; `.ci/run` installs those.
 *
 * @type {import("jest").Config}
 */
module.exports = {
  ...base,
  testMatch: ["**/*.system.test.ts"],
  testPathIgnorePatterns: ["/node_modules/", ...base.modulePathIgnorePatterns],
  passWithNoTests: true,
};
