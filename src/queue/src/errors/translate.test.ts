import { describe, expect, test } from "@jest/globals";
import { SchemaError } from "@workhorse/sql";
import {
  InvalidArgumentError,
  InvalidDefinitionError,
  InvalidJobError,
  IsolationLevelError,
  LeaseLostError,
  OwnershipConflictError,
  PermissionError,
  RefusedError,
} from "./classes";
import { translateError } from "./translate";

/** An error as a driver throws it. */
const thrown = (code: string, fields: object = {}): Error =>
  Object.assign(new Error("from the server"), { code, ...fields });

describe("translateError", () => {
  test.each([
    ["WH001", "definition", OwnershipConflictError],
    ["WH002", "definition", InvalidDefinitionError],
    ["WH002", "job", InvalidJobError],
    ["WH002", "argument", InvalidArgumentError],
    ["WH003", "argument", SchemaError],
    ["WH004", "argument", LeaseLostError],
    ["P0001", "definition", RefusedError],
    ["22P05", "job", InvalidJobError],
    ["3F000", "argument", SchemaError],
    ["42P01", "argument", SchemaError],
    ["42883", "argument", SchemaError],
    ["42501", "argument", PermissionError],
  ] as const)("%s about a %s", (code, subject, type) => {
    const cause = thrown(code);
    const error = translateError(cause, subject);
    expect(error).toBeInstanceOf(type);
    expect(error).toMatchObject({ cause, message: expect.stringContaining("from the server") });
  });

  test("takes the fields from DETAIL, and the hint into the message", () => {
    const detail = JSON.stringify({ namespace: "a", queue: "q", owner: "b" });
    const error = translateError(thrown("WH001", { detail, hint: "Do this." }), "definition");
    expect(error).toMatchObject({ namespace: "a", queue: "q", owner: "b", message: "from the server. Do this." });
    expect(translateError(thrown("WH002", { detail: '{"index":3,"queue":"q"}' }), "definition")).toMatchObject({
      index: 3,
      queue: "q",
    });
    expect(translateError(thrown("WH004", { detail: '{"job_id":"7"}' }), "argument")).toMatchObject({ jobId: "7" });
  });

  test.each([undefined, null, "", "no JSON", "null", "[1]", "7", { queue: "q" }])(
    "takes a DETAIL of %j for nothing",
    (detail) => {
      expect(translateError(thrown("WH001", { detail }), "definition")).toMatchObject({
        namespace: undefined,
        queue: undefined,
        owner: undefined,
      });
    },
  );

  test("tells our isolation error from the server's other uses of its code", () => {
    const ours = thrown("0A000", { routine: "exec_stmt_raise" });
    expect(translateError(ours, "argument")).toBeInstanceOf(IsolationLevelError);
    const stalePlan = thrown("0A000", { routine: "RevalidateCachedQuery" });
    expect(translateError(stalePlan, "argument")).toBe(stalePlan);
  });

  test.each([
    thrown("40P01"),
    thrown("57014"),
    thrown("ECONNREFUSED"),
    thrown("EPIPE"),
    new Error("plain"),
    "text",
    undefined,
  ])("leaves %p as it is", (error) => {
    expect(translateError(error, "argument")).toBe(error);
  });
});
