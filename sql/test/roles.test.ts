import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { installSchema } from "@workhorse/sql";
import type { Client } from "pg";
import { dropRoles, type TestDatabase, testDatabase, testRolePrefix } from "../../test/support/database";
import { claim, complete, type Executor, enqueue, rows, syncCaps, syncRateLimits } from "./support/calls";
import { errorOf, refusalOf } from "./support/refusal";

type Role = "policies" | "worker" | "reader";
const roles: Role[] = ["policies", "worker", "reader"];

const reads = ["rate_limit_statuses_v1", "concurrency_statuses_v1", "queue_health_v1", "explain_job_v1"];
const mayCall: Record<Role, string[]> = {
  policies: [...reads, "sync_rate_limit_policies_v1", "sync_concurrency_policies_v1"],
  worker: [
    ...reads,
    "enqueue_v1",
    "claim_v1",
    "heartbeat_v1",
    "complete_v1",
    "complete_many_v1",
    "fail_v1",
    "release_v1",
    "cancel_v1",
    "recover_expired_v1",
    "promote_v1",
    "sweep_v1",
    "back_off_v1",
  ],
  reader: reads,
};
const mayRead: Record<Role, string[]> = {
  policies: ["schema_migration", "rate_limit_policy", "concurrency_policy"],
  worker: ["schema_migration", "rate_limit_policy", "concurrency_policy"],
  reader: ["schema_migration", "rate_limit_policy", "concurrency_policy"],
};

let database: TestDatabase;
let owner: Client;
let prefix: string;
/** A connection per role, of a login role that was granted it. */
const members = {} as Record<Role, Client>;
beforeAll(async () => {
  database = await testDatabase();
  owner = await database.connect();
  prefix = database.rolePrefix;
  await owner.query("SELECT workhorse.create_roles_v1($1)", [prefix]);
  for (const role of roles) {
    const login = `${prefix}_login_${role}`;
    await owner.query(`CREATE ROLE "${login}" LOGIN PASSWORD 'pass'; GRANT "${prefix}_${role}" TO "${login}"`);
    members[role] = await database.connect(database.urlFor(login, "pass"));
  }
});
afterAll(() => database.drop());

const rate = { limit: 1, intervalMs: 1000, burst: 5 };

describe("each role can do what it is for:", () => {
  test("policies: change them, and read", async () => {
    const client = members.policies;
    expect(await syncRateLimits(client, "n", [{ queue: "q", rate }])).toHaveLength(1);
    expect(await syncCaps(client, "n", [{ queue: "q", maxActive: 3 }])).toHaveLength(1);
    expect(await rows(client, "SELECT * FROM workhorse.rate_limit_policy")).toHaveLength(1);
    expect(await rows(client, "SELECT * FROM workhorse.concurrency_statuses_v1()")).toHaveLength(1);
  });

  test("worker: run jobs through their whole life, and read", async () => {
    const client = members.worker;
    await enqueue(client, ...Array.from({ length: 4 }, () => ({ queue: "w", concurrencyKey: "k" })));
    const { jobs } = await claim(client, "w", { most: 4 });
    const [a, b, c, d] = jobs as [(typeof jobs)[0], (typeof jobs)[0], (typeof jobs)[0], (typeof jobs)[0]];
    await client.query("SELECT workhorse.heartbeat_v1(ARRAY[$1::bigint], ARRAY[1::bigint], 1000)", [a!.id]);
    await complete(client, a!);
    await client.query("SELECT workhorse.fail_v1($1, 1)", [b!.id]);
    await client.query("SELECT workhorse.release_v1($1, 1)", [c!.id]);
    await client.query("SELECT workhorse.cancel_v1($1)", [d!.id]);
    await client.query("SELECT workhorse.recover_expired_v1(), workhorse.promote_v1(), workhorse.sweep_v1()");
    await client.query("SELECT workhorse.back_off_v1('w', 'k', 5)");
    expect(await rows(client, "SELECT * FROM workhorse.queue_health_v1()")).not.toEqual([]);
    expect(await rows(client, "SELECT version FROM workhorse.schema_migration")).not.toEqual([]);
  });

  test("reader: policies, statuses, and jobs without what is private in them", async () => {
    const client = members.reader;
    await enqueue(owner, { queue: "r", payload: { secret: 1 } });
    expect(await rows(client, "SELECT id, state, queue_name FROM workhorse.job WHERE queue_name = 'r'")).toHaveLength(
      1,
    );
    expect(await rows(client, "SELECT workhorse.explain_job_v1(1) AS e")).toMatchObject([{ e: { id: "1" } }]);
    expect(
      JSON.stringify(await rows(client, "SELECT workhorse.explain_job_v1(max(id)) FROM workhorse.job")),
    ).not.toContain("secret");
    for (const column of ["payload", "result", "error", "fence_token", "*"]) {
      const error = await errorOf(client.query(`SELECT ${column} FROM workhorse.job`));
      expect([column, error.code]).toEqual([column, "42501"]);
    }
  });
});

describe.each(roles)("the role %s can do nothing else:", (role) => {
  test("it may call its functions and no other", async () => {
    const functions = await rows(
      owner,
      `SELECT p.proname AS name, has_function_privilege($1, p.oid, 'EXECUTE') AS may FROM pg_proc AS p
       WHERE p.pronamespace = 'workhorse'::regnamespace ORDER BY p.proname`,
      [`${prefix}_login_${role}`],
    );
    const allowed = functions.filter(({ may }) => may).map(({ name }) => name);
    expect(allowed).toEqual([...mayCall[role]].sort());
    expect(functions.length).toBeGreaterThan(40);
  });

  test("and calling each of the others is refused for real", async () => {
    const others = await rows(
      owner,
      `SELECT p.proname AS name, (SELECT string_agg(format('NULL::%s', format_type(t, NULL)), ', ' ORDER BY i)
         FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, i)) AS arguments
       FROM pg_proc AS p WHERE p.pronamespace = 'workhorse'::regnamespace AND NOT p.proname = ANY ($1)`,
      [mayCall[role]],
    );
    for (const { name, arguments: nulls } of others) {
      const error = await errorOf(members[role].query(`SELECT workhorse.${name}(${nulls ?? ""})`));
      expect([name, error.code]).toEqual([name, "42501"]);
    }
  });

  test("it may read its tables, write none, and use no sequence", async () => {
    const tables = await rows(
      owner,
      "SELECT relname AS name, relkind AS kind FROM pg_class WHERE relnamespace = 'workhorse'::regnamespace AND relkind IN ('r', 'S')",
    );
    expect(tables.length).toBeGreaterThan(8);
    for (const { name, kind } of tables) {
      const table = `workhorse.${name}`;
      const outcomes: Record<string, string> = {};
      const attempts: Record<string, string> =
        kind === "S"
          ? { read: `SELECT * FROM ${table}`, next: `SELECT nextval('${table}')`, set: `SELECT setval('${table}', 1)` }
          : {
              read: `SELECT * FROM ${table} LIMIT 0`,
              insert: `INSERT INTO ${table} DEFAULT VALUES`,
              delete: `DELETE FROM ${table}`,
              truncate: `TRUNCATE ${table}`,
              lock: `LOCK TABLE ${table} IN EXCLUSIVE MODE`,
              drop: `DROP TABLE ${table}`,
              alter: `ALTER TABLE ${table} ADD COLUMN x int`,
              index: `CREATE INDEX ON ${table} ((1))`,
              trigger: `CREATE TRIGGER t BEFORE INSERT ON ${table} EXECUTE FUNCTION suppress_redundant_updates_trigger()`,
            };
      for (const [what, text] of Object.entries(attempts)) {
        outcomes[what] = await attempt(members[role], text);
      }
      const expected = Object.fromEntries(Object.keys(attempts).map((what) => [what, "42501"]));
      if (mayRead[role].includes(name)) expected.read = "allowed";
      expect([name, outcomes]).toEqual([name, expected]);
    }
    const columns = await rows(
      owner,
      `SELECT attrelid::regclass::text AS name, attname AS column FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
       WHERE relnamespace = 'workhorse'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`,
    );
    for (const { name, column } of columns) {
      expect([name, column, await attempt(members[role], `UPDATE ${name} SET ${column} = NULL`)]).toEqual([
        name,
        column,
        "42501",
      ]);
    }
  });

  test("it may make nothing in the schema, make no roles, and not hand its rights on", async () => {
    const client = members[role];
    expect(await attempt(client, "CREATE TABLE workhorse.mine ()")).toBe("42501");
    expect(await attempt(client, "CREATE FUNCTION workhorse.clock(int) RETURNS int LANGUAGE sql AS 'SELECT 1'")).toBe(
      "42501",
    );
    expect(
      await attempt(
        client,
        "CREATE OR REPLACE FUNCTION workhorse.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
      ),
    ).toBe("42501");
    expect(await attempt(client, `SELECT workhorse.create_roles_v1('${prefix}_more')`)).toBe("42501");
    expect(await attempt(client, "DROP SCHEMA workhorse CASCADE")).toBe("42501");
    await client.query("GRANT SELECT ON workhorse.rate_limit_policy TO PUBLIC"); // a warning: no grant options
    const [{ may }] = (await rows(
      owner,
      "SELECT count(*)::int AS may FROM pg_class, aclexplode(relacl) AS a WHERE relnamespace = 'workhorse'::regnamespace AND a.grantee = 0",
    )) as [{ may: number }];
    expect(may).toBe(0);
  });

  test("nothing that it puts in front in its own session reaches the functions that run as the owner", async () => {
    const client = members[role];
    await client.query(`
      CREATE TEMP TABLE rate_limit_policy AS SELECT 'planted'::text AS queue_name;
      CREATE TEMP TABLE job AS SELECT 1 AS id;
      SET search_path = pg_temp, public`);
    expect(JSON.stringify(await rows(client, "SELECT * FROM workhorse.rate_limit_statuses_v1()"))).not.toContain(
      "planted",
    );
    await client.query("RESET search_path; DROP TABLE pg_temp.rate_limit_policy, pg_temp.job");
  });
});

/** "allowed", or the SQLSTATE. Whatever it does is undone. */
async function attempt(client: Client, text: string): Promise<string> {
  await client.query("BEGIN");
  const outcome = await client.query(text).then(
    () => "allowed",
    (error) => error.code as string,
  );
  await client.query("ROLLBACK");
  return outcome;
}

describe("create_roles_v1", () => {
  test("makes roles that cannot log in and are nothing special, and can be called again", async () => {
    await owner.query("SELECT workhorse.create_roles_v1($1)", [prefix]);
    const made = await rows(
      owner,
      `SELECT rolname, rolcanlogin, rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls FROM pg_roles
       WHERE rolname = ANY ($1) ORDER BY rolname`,
      [roles.map((role) => `${prefix}_${role}`)],
    );
    expect(made).toEqual(
      [...roles].sort().map((role) => ({
        rolname: `${prefix}_${role}`,
        rolcanlogin: false,
        rolsuper: false,
        rolcreaterole: false,
        rolcreatedb: false,
        rolreplication: false,
        rolbypassrls: false,
      })),
    );
  });

  test.each([
    [null, "null"],
    ["", '""'],
    ["x".repeat(51), "x".repeat(51)],
    ["pg_mine", "pg_mine"],
  ])("refuses the prefix %j", async (bad, shown) => {
    const refusal = await refusalOf(owner.query("SELECT workhorse.create_roles_v1($1)", [bad]));
    expect(refusal).toMatchObject({ code: "WH002", message: `invalid prefix ${shown} for roles` });
    expect(refusal.hint).toContain("1 to 50 bytes");
  });

  test("takes a prefix that needs quoting", async () => {
    const odd = `${prefix} O'Neil "x"`;
    await owner.query("SELECT workhorse.create_roles_v1($1)", [odd]);
    const made = await rows(owner, "SELECT FROM pg_roles WHERE starts_with(rolname, $1)", [odd]);
    expect(made).toHaveLength(3);
  });

  test("at the same moment from two databases, and twice in each: all succeed, and each database has its rights", async () => {
    const shared = testRolePrefix();
    const databases = await Promise.all([testDatabase(), testDatabase()]);
    try {
      for (let round = 0; round < 5; round++) {
        const clients = await Promise.all(databases.flatMap((one) => [one.connect(), one.connect()]));
        await Promise.all(
          clients.map((client) => client.query("SELECT workhorse.create_roles_v1($1)", [`${shared}_${round}`])),
        );
        for (const client of clients) {
          const [{ may }] = (await rows(
            client,
            "SELECT has_function_privilege($1, 'workhorse.claim_v1(text, text, integer, integer)', 'EXECUTE') AS may",
            [`${shared}_${round}_worker`],
          )) as [{ may: boolean }];
          expect(may).toBe(true);
        }
        await Promise.all(clients.map((client) => client.end()));
      }
    } finally {
      await Promise.all(databases.map((one) => one.drop()));
      await dropRoles(shared);
    }
  });

  test("by a caller who may not create roles is refused, and leaves nothing", async () => {
    const fresh = `${prefix}_unmade`;
    const login = `${prefix}_stranger`;
    await owner.query(`CREATE ROLE "${login}" LOGIN PASSWORD 'pass'`);
    const stranger = await database.connect(database.urlFor(login, "pass"));
    expect(await errorOf(stranger.query("SELECT workhorse.create_roles_v1($1)", [fresh]))).toMatchObject({
      code: "42501",
    });
    await owner.query(`GRANT USAGE ON SCHEMA workhorse TO "${login}";
      GRANT EXECUTE ON FUNCTION workhorse.create_roles_v1(text), workhorse.refuse(text, text, text, jsonb) TO "${login}"`);
    expect(await errorOf(stranger.query("SELECT workhorse.create_roles_v1($1)", [fresh]))).toMatchObject({
      code: "42501",
      message: `cannot make role "${fresh}_policies": ${login} may not create roles`,
      hint: expect.stringMatching(/^Call it as a role that has CREATEROLE/),
    });
    // Who may create roles but does not own the schema cannot give rights on it.
    await owner.query(`ALTER ROLE "${login}" CREATEROLE`);
    expect(await errorOf(stranger.query("SELECT workhorse.create_roles_v1($1)", [fresh]))).toMatchObject({
      code: "42501",
    });
    expect(await rows(owner, "SELECT FROM pg_roles WHERE starts_with(rolname, $1)", [fresh])).toEqual([]);
  });

  test("by the schema's owner, who is no superuser but may create roles, works", async () => {
    const own = await testDatabase({ schema: false });
    try {
      const login = `${own.rolePrefix}_owner`;
      await (await own.connect()).query(
        `CREATE ROLE "${login}" LOGIN PASSWORD 'pass' CREATEROLE; GRANT CREATE ON DATABASE "${own.name}" TO "${login}"`,
      );
      const client = await own.connect(own.urlFor(login, "pass"));
      await installSchema(client);
      await client.query("SELECT workhorse.create_roles_v1($1)", [own.rolePrefix]);
      await client.query("SELECT workhorse.create_roles_v1($1)", [own.rolePrefix]);
      expect(await mayExecute(client, `${own.rolePrefix}_reader`)).toEqual([...reads].sort());
    } finally {
      await own.drop();
    }
  });

  const mayExecute = async (client: Executor, role: string): Promise<string[]> =>
    (
      await rows(
        client,
        `SELECT proname AS name FROM pg_proc WHERE pronamespace = 'workhorse'::regnamespace
           AND has_function_privilege($1, oid, 'EXECUTE') ORDER BY proname`,
        [role],
      )
    ).map(({ name }) => name);
});

describe("nobody but the owner has any right on the schema by default:", () => {
  test("PUBLIC can execute nothing, read nothing, and not even use it", async () => {
    const fresh = await testDatabase();
    try {
      const granted = await rows(
        await fresh.connect(),
        `SELECT p.oid::regprocedure::text AS what FROM pg_proc AS p,
           aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
         WHERE p.pronamespace = 'workhorse'::regnamespace AND a.grantee <> p.proowner
         UNION ALL
         SELECT c.oid::regclass::text FROM pg_class AS c, aclexplode(coalesce(c.relacl, acldefault(
           CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner))) AS a
         WHERE c.relnamespace = 'workhorse'::regnamespace AND a.grantee <> c.relowner
         UNION ALL
         SELECT n.nspname FROM pg_namespace AS n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) AS a
         WHERE n.nspname = 'workhorse' AND a.grantee <> n.nspowner`,
      );
      expect(granted).toEqual([]);
    } finally {
      await fresh.drop();
    }
  });

  test("every function that runs with the owner's rights has a fixed search_path that ends with pg_temp", async () => {
    const functions = await rows(
      owner,
      `SELECT p.proname AS name, p.prosecdef AS definer, p.proconfig AS config FROM pg_proc AS p
       WHERE p.pronamespace = 'workhorse'::regnamespace ORDER BY 1`,
    );
    const definers = functions.filter(({ definer }) => definer);
    expect(definers.map(({ name }) => name)).toEqual([...new Set(roles.flatMap((role) => mayCall[role]))].sort());
    for (const { name, config } of definers) {
      expect([name, config ?? []]).toEqual([name, expect.arrayContaining(["search_path=pg_catalog, pg_temp"])]);
    }
  });

  test("every versioned function is either for a role or for setting up, and there is no other way in", async () => {
    const versioned = await rows(
      owner,
      `SELECT DISTINCT proname AS name FROM pg_proc WHERE pronamespace = 'workhorse'::regnamespace AND proname ~ '_v[0-9]+$'`,
    );
    const known = [...new Set(roles.flatMap((role) => mayCall[role])), "create_roles_v1", "rebuild_lanes_v1"].sort();
    expect(versioned.map(({ name }) => name).sort()).toEqual(known);
  });
});
