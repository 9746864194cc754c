import { describe, expect, test } from "@jest/globals";
import { parseOptions, UsageError } from "./options";

describe("parseOptions", () => {
  test.each([
    [[], { once: false }],
    [["--once"], { once: true }],
    [["--once", "--help"], "help"],
    [["-h"], "help"],
  ])("%j", (args, options) => {
    expect(parseOptions(args)).toEqual(options);
  });

  test.each([["--onec"], ["--once=true"], ["once"], [""]])("refuses %j and says what is accepted", (argument) => {
    expect(() => parseOptions(["--once", argument])).toThrow(
      new UsageError(`npm start: unknown option ${JSON.stringify(argument)}; accepted are --once and --help`),
    );
  });
});
