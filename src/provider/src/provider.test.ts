import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import type { TerraformSandbox, TerraformWorkspace } from "@workhorse/tools";
import { type TestDatabase, testDatabase } from "../../../test/support/database";
import { eventually } from "../../../test/support/eventually";
import { testTerraform } from "../../../test/support/terraform";
import { HEAD, stateOf } from "../test/support";

describe("the provider with the real Terraform", () => {
  let database: TestDatabase;
  let terraform: TerraformSandbox;
  let workspace: TerraformWorkspace;

  beforeAll(async () => {
    database = await testDatabase();
    terraform = await testTerraform({ env: { WORKHORSE_DATABASE_URL: database.url } });
  });
  afterAll(async () => {
    try {
      await terraform?.dispose();
    } finally {
      await database?.drop();
    }
  });
  beforeEach(async () => {
    await database.pool.query("SELECT workhorse.sync_rate_limit_policies_v1('team', '[]')");
    workspace = await terraform.workspace({ "main.tf": HEAD });
    await workspace.init();
  });

  const write = (text: string) => workspace.write({ "main.tf": `${HEAD}\n${text}` });
  const rates = (policies: string, more = "") =>
    `resource "workhorse_rate_limit_policies" "it" {\n namespace = "team"\n policies = ${policies}\n ${more}\n}`;
  const MAIL = "{ mail = { rate = { limit = 5, interval_ms = 1000, burst = 1 } } }";
  const stored = async () =>
    (await database.pool.query("SELECT queue_name, rate_limit FROM workhorse.rate_limit_policy ORDER BY 1")).rows;

  test("refuses bad values at validate, each where it stands", async () => {
    const cases: [policies: string, ...texts: string[]][] = [
      [
        "{ mail = { rate = { limit = 0, interval_ms = 1000, burst = 1 } } }",
        'Invalid value for policies["mail"].rate.limit',
        "Got 0; accepted is a whole number from 1 to 1,000,000",
      ],
      [
        "{ mail = { rate = { limit = -1, interval_ms = 1000, burst = 1 } } }",
        'Invalid value for policies["mail"].rate.limit',
        "Got -1;",
      ],
      [
        "{ mail = { rate = { limit = 1.5, interval_ms = 1000, burst = 1 } } }",
        'Invalid value for policies["mail"].rate.limit',
        "Got 1.5; accepted is a whole number from 1 to 1,000,000",
      ],
      [
        "{ mail = { rate = { limit = 1, interval_ms = 1e8, burst = 1 } } }",
        'Invalid value for policies["mail"].rate.interval_ms',
        "Got 100000000; accepted",
      ],
      [
        "{ mail = { rate = { limit = 1, interval_ms = 1, burst = 1e7 } } }",
        'Invalid value for policies["mail"].rate.burst',
        "Got 10000000; accepted",
      ],
      [
        "{ mail = { rate = { limit = null, interval_ms = 1, burst = 1 } } }",
        'Invalid value for policies["mail"].rate.limit',
        "Got null, but limit is required; accepted is a whole number from 1 to 1,000,000",
      ],
      ["{ mail = { rate = { interval_ms = 1, burst = 1 } } }", "limit"],
      ["{ mail = null }", 'Invalid value for policies["mail"]', "Got null"],
      ["null", "policies"],
      ['{ "" = { rate = { limit = 1, interval_ms = 1, burst = 1 } } }', 'Got ""; accepted is 1 to 256 bytes'],
      [
        `{ ${"é".repeat(129)} = { rate = { limit = 1, interval_ms = 1, burst = 1 } } }`,
        "Got a name of 258 bytes; accepted is 1 to 256 bytes",
      ],
    ];
    const resources = cases.map(([policies], i) => rates(policies).replace('"it"', `"r${i}"`));
    await write(resources.join("\n"));
    const { text, code } = await workspace.validate();
    expect(code).toBe(1);
    for (const [, ...expected] of cases) for (const part of expected) expect(text).toContain(part);
  });

  test("refuses a cap per key above the cap, and other words, at validate", async () => {
    await write(`
      resource "workhorse_concurrency_policies" "it" {
        namespace = ""
        policies  = { mail = { max_active = 2, max_active_per_key = 3 } }
      }
      resource "workhorse_concurrency_policies" "that" {
        namespace = "x"
        policies  = { mail = { max_active = 2, max_active_per_key = 3 } }
      }
      resource "workhorse_schema" "it" { on_destroy = "explode" }`);
    const { text } = await workspace.validate();
    expect(text).toContain('Got ""; accepted is 1 to 256 bytes');
    expect(text).toContain('Got 3 for queue "mail"; accepted is a whole number from 1 to max_active, which is 2');
    expect(text).toContain('Got "explode"; accepted is one of "retain", "drop"');
    await write(`
      provider "workhorse" {
        port    = 0
        sslmode = "maybe"
      }
      resource "workhorse_schema" "it" {}`);
    const provider = await workspace.validate();
    expect(provider.text).toContain("Got 0; accepted is a whole number from 1 to 65,535");
    expect(provider.text).toContain('Got "maybe"; accepted is one of "disable", "allow", "prefer"');
  });

  test("warns of limits per key above the queue's own", async () => {
    await write(
      rates(`{ mail = {
        rate    = { limit = 60, interval_ms = 60000, burst = 10 }
        per_key = { limit = 2, interval_ms = 1000, burst = 11 }
      } }`),
    );
    const { text, code } = await workspace.plan();
    expect(code).toBe(0);
    expect(text).toContain('The per_key rate of queue "mail" is above the queue\'s own');
    expect(text).toContain("per_key never holds a job back");
  });

  test("says which part of a limit per key still counts", async () => {
    const perKey = async (limit: number, burst: number) => {
      const rate = "rate = { limit = 60, interval_ms = 60000, burst = 10 }";
      await write(
        rates(`{ mail = { ${rate}, per_key = { limit = ${limit}, interval_ms = 60000, burst = ${burst} } } }`),
      );
      return (await workspace.plan()).text;
    };
    expect(await perKey(61, 9)).toContain("Only its burst (9, the queue's is 10) ever holds a job back");
    expect(await perKey(60, 11)).toContain('The per_key burst of queue "mail" is above the queue\'s own');
    expect(await perKey(60, 10)).not.toContain("above the queue's own");
  });

  test("a value that is only known during apply is planned, and checked then", async () => {
    const config = (limit: string) => `
      resource "terraform_data" "limit" { input = ${limit} }
      ${rates("{ mail = { rate = { limit = terraform_data.limit.output, interval_ms = 1000, burst = 1 } } }")}`;
    await write(config("0"));
    const refused = await workspace.apply();
    expect(refused.code).toBe(1);
    expect(refused.text).toContain('Invalid value for policies["mail"].rate.limit');
    expect(refused.text).toContain("Got 0; accepted is a whole number from 1 to 1,000,000");
    await write(config("7"));
    expect(await workspace.apply()).toMatchObject({ code: 0 });
    expect(await stored()).toEqual([{ queue_name: "mail", rate_limit: 7 }]);
  });

  test("a map, a namespace or a database that is only known during apply is planned", async () => {
    await write(`
      resource "terraform_data" "all" {
        input = { policies = ${MAIL}, namespace = "team", url = ${JSON.stringify(database.url)} }
      }
      provider "workhorse" { url = terraform_data.all.output.url }
      resource "workhorse_rate_limit_policies" "it" {
        namespace = terraform_data.all.output.namespace
        policies  = terraform_data.all.output.policies
      }
      resource "workhorse_schema" "it" {}`);
    const apply = await workspace.run(["apply", "-input=false", "-auto-approve"], {
      env: { WORKHORSE_DATABASE_URL: undefined },
    });
    expect(apply.text).toContain("Apply complete!");
    expect(await stored()).toEqual([{ queue_name: "mail", rate_limit: 5 }]);
    expect(await stateOf(workspace, "workhorse_rate_limit_policies.it")).toMatchObject({ id: "team", pruned: [] });
  });

  test("reads what is persisted, and makes rates", async () => {
    await database.pool.query(`SELECT workhorse.sync_rate_limit_policies_v1('team',
      '[{"queue": "mail", "rate": {"limit": 5, "intervalMs": 1000, "burst": 1}}, {"queue": "sms", "rate": {"limit": 6, "intervalMs": 1000, "burst": 1}}]')`);
    await write(`
      data "workhorse_rate_limit_policies" "team" { namespace = "team" }
      data "workhorse_rate_limit_policies" "some" { queues = ["sms", "none"] }
      data "workhorse_concurrency_policies" "all" {}
      output "team" { value = data.workhorse_rate_limit_policies.team.policies }
      output "some" { value = keys(data.workhorse_rate_limit_policies.some.policies) }
      output "none" { value = data.workhorse_concurrency_policies.all.policies }
      output "rates" { value = [provider::workhorse::per_second(1, 2), provider::workhorse::per_minute(3, 4),
        provider::workhorse::per_hour(5, 6), provider::workhorse::per_day(7, 8)] }`);
    expect(await workspace.apply()).toMatchObject({ code: 0 });
    const { values } = await workspace.show();
    expect(values?.outputs?.team?.value).toEqual({
      mail: {
        namespace: "team",
        rate: { limit: 5, interval_ms: 1000, burst: 1 },
        per_key: null,
        updated_at: expect.stringMatching(/^\d{4}-.*Z$/),
      },
      sms: expect.objectContaining({ rate: { limit: 6, interval_ms: 1000, burst: 1 } }),
    });
    expect(values?.outputs?.some?.value).toEqual(["sms"]);
    expect(values?.outputs?.none?.value).toEqual({});
    expect(values?.outputs?.rates?.value).toEqual([
      { limit: 1, interval_ms: 1_000, burst: 2 },
      { limit: 3, interval_ms: 60_000, burst: 4 },
      { limit: 5, interval_ms: 3_600_000, burst: 6 },
      { limit: 7, interval_ms: 86_400_000, burst: 8 },
    ]);
    await write('output "bad" { value = provider::workhorse::per_second(0, 1) }');
    expect((await workspace.plan()).text).toContain("n: got 0; accepted is a whole number from 1 to 1,000,000.");
  });

  test("says what is wrong with a connection, and where", async () => {
    const { hostname, port, pathname } = new URL(database.url);
    const where = `${hostname}:${port}${pathname}`;
    const web = createServer((socket) => socket.on("error", () => {}).end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    web.listen(0, "127.0.0.1");
    await once(web, "listening");
    const webPort = (web.address() as AddressInfo).port;
    const attempts: [provider: string, env: Record<string, string | undefined>, texts: string[]][] = [
      ["", { WORKHORSE_DATABASE_URL: undefined }, ["No database is given", "WORKHORSE_DATABASE_URL"]],
      [
        'url = "postgres://u:hunter2@127.0.0.1:1/db"',
        {},
        ["Cannot connect to PostgreSQL at 127.0.0.1:1/db", "Nothing listens there"],
      ],
      ['host = "127.0.0.1"\n url = "postgres://h"', {}, ["given twice: as url and by host"]],
      [
        `url = ${JSON.stringify(database.urlFor("postgres", "hunter2"))}`,
        {},
        [`Cannot connect to PostgreSQL at ${where}`, "refused user"],
      ],
      [
        `url = "${database.url}?sslmode=verify-full"`,
        {},
        [`Cannot connect to PostgreSQL at ${where}`, "does not speak TLS"],
      ],
      [`url = ${JSON.stringify(database.url.replace(pathname, "/missing"))}`, {}, ["does not exist"]],
      [
        `url = ${JSON.stringify(database.urlFor("postgres", ""))}`,
        {},
        [`at ${where}`, "wants a password", "none is given"],
      ],
      ...["prefer", "disable"].map((sslmode): (typeof attempts)[number] => [
        `url = "postgres://u:hunter2@127.0.0.1:${webPort}/db?sslmode=${sslmode}"`,
        {},
        [`Cannot connect to PostgreSQL at 127.0.0.1:${webPort}/db`, "does not behave like a PostgreSQL server"],
      ]),
    ];
    for (const [provider, env, texts] of attempts) {
      await write(`provider "workhorse" {\n ${provider}\n}\n${rates(MAIL)}`);
      const { text, code } = await workspace.run(["plan", "-input=false"], { env });
      expect(code).toBe(1);
      for (const expected of texts) expect(text).toContain(expected);
      expect(text).not.toContain("hunter2");
    }
    web.close();
  });

  test("shows no password: not in any output, nor in the log of TF_LOG=TRACE, nor in plan or state", async () => {
    const role = `${database.rolePrefix}secret`;
    const password = "s3cr:t/p@ss %wörd";
    await database.pool.query(`CREATE ROLE ${role} SUPERUSER LOGIN PASSWORD '${password}'`);
    const env = { WORKHORSE_DATABASE_URL: database.urlFor(role, password), TF_LOG: "TRACE" };
    await write(rates(MAIL));
    const plan = await workspace.run(["plan", "-input=false", "-out=it.tfplan"], { env });
    const shown = await workspace.run(["show", "-json", "it.tfplan"]);
    const apply = await workspace.run(["apply", "-input=false", "it.tfplan"], { env });
    expect(apply).toMatchObject({ code: 0 });
    const state = await readFile(join(workspace.dir, "terraform.tfstate"), "utf8");
    await database.pool.query(`ALTER ROLE ${role} PASSWORD 'another'`);
    const failed = await workspace.run(["plan", "-input=false"], { env });
    expect(failed.code).toBe(1);
    const emitted = [plan.all, shown.all, apply.all, state, failed.all].join("\n");
    expect(emitted).toContain("database configured");
    for (const form of [password, encodeURIComponent(password), JSON.stringify(password).slice(1, -1)]) {
      expect(emitted.includes(form)).toBe(false);
    }
  });

  test("Ctrl-C cancels a statement that waits for a lock; nothing is half done", async () => {
    // No timeout ends the waiting: only the interrupt does.
    await write(
      `provider "workhorse" {\n lock_timeout_ms = 3600000\n statement_timeout_ms = 3600000\n}\n${rates(MAIL)}`,
    );
    const holder = await database.connect();
    await holder.query("BEGIN");
    await holder.query("SELECT pg_advisory_xact_lock(hashtextextended('workhorse:rate-limit-policies', 0))");
    const interrupt = new AbortController();
    const waiting = (async () => {
      for (;;) {
        const { rows } = await database.pool.query(
          "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        );
        if (rows.length > 0) return interrupt.abort();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    })();
    const apply = await workspace.run(["apply", "-input=false", "-auto-approve"], { interrupt: interrupt.signal });
    await waiting;
    expect(apply.code).toBe(1);
    expect(apply.text).toContain("Interrupted");
    expect(await stored()).toEqual([]);
    await holder.query("ROLLBACK");
    expect(await workspace.apply()).toMatchObject({ code: 0 });
  });

  test("a provider that is killed leaves no backend that waits for a lock", async () => {
    await write(
      `provider "workhorse" {\n lock_timeout_ms = 3600000\n statement_timeout_ms = 3600000\n}\n${rates(MAIL)}`,
    );
    const waiting = async () => {
      const { rows } = await database.pool.query(
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
      );
      return rows.length;
    };
    const holder = await database.connect();
    await holder.query("BEGIN");
    await holder.query("SELECT pg_advisory_xact_lock(hashtextextended('workhorse:rate-limit-policies', 0))");
    const kill = new AbortController();
    // The socket that a killed provider leaves is removed with the workspace.
    const options = { signal: kill.signal, env: { TMPDIR: workspace.dir } };
    const apply = workspace.run(["apply", "-input=false", "-auto-approve"], options);
    await eventually("the apply to wait for the lock", async () => (await waiting()) === 1);
    kill.abort(new Error("killed"));
    await expect(apply).rejects.toThrow("killed");
    await eventually("the backend to notice", async () => (await waiting()) === 0);
    await holder.query("ROLLBACK");
    expect(await stored()).toEqual([]);
  });

  test("a lock that is held too long ends with a clear error", async () => {
    await write(`provider "workhorse" {\n lock_timeout_ms = 100\n}\n${rates(MAIL)}`);
    const holder = await database.connect();
    await holder.query("BEGIN");
    await holder.query("SELECT pg_advisory_xact_lock(hashtextextended('workhorse:rate-limit-policies', 0))");
    const apply = await workspace.apply();
    await holder.query("ROLLBACK");
    expect(apply.code).toBe(1);
    expect(apply.text).toMatch(/A lock at .* was not free in time.*lock_timeout_ms/);
    expect(await stored()).toEqual([]);
  });
});
