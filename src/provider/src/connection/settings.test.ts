import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { type ConnectionArguments, resolveSettings, SettingsError } from "./settings";
import { parseUrl, UrlError } from "./url";

const timeouts = { connectMs: 1, statementMs: 2, lockMs: 3 };
const resolve = (given: ConnectionArguments, env: NodeJS.ProcessEnv = {}) => resolveSettings(given, env, timeouts);

describe("connection URLs", () => {
  test("take any character in any part, percent-encoded", () => {
    const text = fc.string({ unit: "grapheme", minLength: 1 }).filter((value) => !value.includes("\0"));
    const host = fc.constantFrom("db.example.com", "10.0.0.1", "[::1]", "%2Fvar%2Frun%2Fpostgresql");
    fc.assert(
      fc.property(
        text,
        text,
        text,
        host,
        fc.integer({ min: 1, max: 65_535 }),
        (user, password, database, name, port) => {
          const [u, p, d] = [user, password, database].map(encodeURIComponent);
          const parsed = parseUrl(`postgresql://${u}:${p}@${name}:${port}/${d}?sslmode=require`);
          expect(parsed).toMatchObject({ username: user, password, database, port, sslmode: "require" });
          expect(parsed.host).toBe(decodeURIComponent(name.replace(/^\[|\]$/g, "")));
        },
      ),
    );
  });

  test.each<[string, object]>([
    ["postgres://", {}],
    ["postgres://host", { host: "host" }],
    ["postgres://host/db", { host: "host", database: "db" }],
    [
      "postgres:///db?host=/run/pg&port=5433&user=u&password=p",
      { host: "/run/pg", port: 5433, username: "u", password: "p" },
    ],
    ["postgres://u@host", { username: "u", host: "host" }],
    ["postgres://u:a:b@host", { username: "u", password: "a:b" }],
    ["postgres://u:a@b@host", { username: "u", password: "a@b", host: "host" }],
    ["postgres://u:p#q@host/d#1", { password: "p#q", database: "d#1" }],
    ["postgres://u:postgres%3A%2F%2Fa%3Ab%40c%2Fd@host", { password: "postgres://a:b@c/d", host: "host" }],
    ["postgres://host/db?schema=public&sslrootcert=%2Fca.pem", { sslRootCert: "/ca.pem", ignored: ["schema"] }],
  ])("%s", (url, parts) => {
    expect(parseUrl(url)).toMatchObject(parts);
  });

  test.each([
    "mysql://u:hunter2@host/db",
    "hunter2",
    "postgres://u:hunter2/x@host/db",
    "postgres://u:12/hunter2@host/db",
    "postgres://u:12?hunter2@host/db",
    "postgres://u:a@b/hunter2@host/db",
    "postgres://u:hunter2%00@host/db",
    " postgres://u:hunter2@host/db",
    "postgres://u:hunter2@host/db\n",
    "postgres://u:hunter2%@host",
    "postgres://u:hunter2@host:0/db",
    "postgres://u:hunter2@host:x/db",
    "postgres://u:hunter2@a,b/db",
  ])("refuses %s without quoting it", (url) => {
    expect(() => parseUrl(url)).toThrow(UrlError);
    expect(() => parseUrl(url)).not.toThrow(/hunter2/);
    expect(() => resolve({ url })).not.toThrow(/hunter2/);
  });
});

describe("which database is meant", () => {
  const url = "postgres://u:p@given/db";
  const env = {
    WORKHORSE_DATABASE_URL: "postgres://u@workhorse/db",
    DATABASE_URL: "postgres://u@database/db",
    PGHOST: "pghost",
    PGPORT: "6000",
    PGUSER: "pguser",
    PGPASSWORD: "pgpassword",
    PGSSLMODE: "require",
  };

  test("the first source that is there, and it alone", () => {
    expect(resolve({ url }, env)).toMatchObject({
      settings: { host: "given", port: 5432, sslmode: "prefer", password: "p" },
    });
    expect(resolve({}, env)).toMatchObject({
      settings: { host: "workhorse", password: undefined },
      source: "WORKHORSE_DATABASE_URL",
    });
    expect(resolve({}, { ...env, WORKHORSE_DATABASE_URL: "" }).settings.host).toBe("database");
    const variables = { ...env, WORKHORSE_DATABASE_URL: undefined, DATABASE_URL: undefined };
    expect(resolve({}, variables).settings).toMatchObject({
      host: "pghost",
      port: 6000,
      database: "pguser",
      sslmode: "require",
    });
  });

  test("the PG* variables fill what single arguments leave out, the URL variables never", () => {
    expect(resolve({ host: "h", database: "d" }, env).settings).toMatchObject({
      host: "h",
      database: "d",
      port: 6000,
      username: "pguser",
      password: "pgpassword",
    });
    expect(resolve({ password: "x" }, { DATABASE_URL: url }).settings).toMatchObject({
      host: "localhost",
      password: "x",
    });
  });

  test.each<[ConnectionArguments, NodeJS.ProcessEnv, RegExp]>([
    [{}, {}, /No database is given.*WORKHORSE_DATABASE_URL/],
    [{ url, sslRootCert: "x" }, {}, /given twice: as url and by ssl_root_cert/],
    [{ url: `${url}?sslmode=off` }, {}, /sslmode in the provider's arguments is "off"; accepted is one of disable/],
    [{ host: "h" }, { PGPORT: "x" }, /PGPORT is no whole number/],
    [{}, { DATABASE_URL: "x" }, /URL in the environment variable DATABASE_URL cannot be read/],
  ])("refuses %j with %j", (given, variables, message) => {
    expect(() => resolve(given, variables)).toThrow(SettingsError);
    expect(() => resolve(given, variables)).toThrow(message);
  });
});
