/**
 * The two tables and two functions of the contract, made by someone else: columns in another order, errors as plain
 * exceptions, one row at a time.
 */
export const FOREIGN_SQL = `
CREATE SCHEMA workhorse;
CREATE TABLE workhorse.rate_limit_policy (updated_at timestamptz NOT NULL DEFAULT now(), per_key_burst int,
  per_key_interval_ms int, per_key_limit int, rate_burst int NOT NULL, rate_interval_ms int NOT NULL,
  rate_limit int NOT NULL, namespace text NOT NULL, queue_name text PRIMARY KEY);
CREATE TABLE workhorse.concurrency_policy (updated_at timestamptz NOT NULL DEFAULT now(), namespace text NOT NULL,
  max_active_per_key int, max_active int NOT NULL, queue_name text PRIMARY KEY);

CREATE FUNCTION workhorse.sync_rate_limit_policies_v1(ns text, defs jsonb, prune boolean DEFAULT true)
RETURNS SETOF workhorse.rate_limit_policy LANGUAGE plpgsql AS $$
DECLARE d jsonb;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('workhorse:rate-limit-policies', 0));
  IF prune THEN
    DELETE FROM workhorse.rate_limit_policy p WHERE p.namespace = ns
      AND NOT EXISTS (SELECT FROM jsonb_array_elements(defs) e WHERE e ->> 'queue' = p.queue_name);
  END IF;
  FOR d IN SELECT * FROM jsonb_array_elements(defs) LOOP
    IF (d -> 'rate' ->> 'limit')::int = 666 THEN RAISE EXCEPTION 'the number of the beast is not welcome'; END IF;
    INSERT INTO workhorse.rate_limit_policy (queue_name, namespace, rate_limit, rate_interval_ms, rate_burst,
      per_key_limit, per_key_interval_ms, per_key_burst)
    VALUES (d ->> 'queue', ns, (d -> 'rate' ->> 'limit')::int, (d -> 'rate' ->> 'intervalMs')::int,
      (d -> 'rate' ->> 'burst')::int, (d -> 'perKey' ->> 'limit')::int, (d -> 'perKey' ->> 'intervalMs')::int,
      (d -> 'perKey' ->> 'burst')::int)
    -- No look at the owner: whoever calls has to take it.
    ON CONFLICT (queue_name) DO UPDATE SET namespace = excluded.namespace, rate_limit = excluded.rate_limit,
      rate_interval_ms = excluded.rate_interval_ms, rate_burst = excluded.rate_burst,
      per_key_limit = excluded.per_key_limit, per_key_interval_ms = excluded.per_key_interval_ms,
      per_key_burst = excluded.per_key_burst;
  END LOOP;
  RETURN QUERY SELECT * FROM workhorse.rate_limit_policy p WHERE p.namespace = ns ORDER BY p.queue_name COLLATE "C";
END $$;

CREATE FUNCTION workhorse.sync_concurrency_policies_v1(ns text, defs jsonb, prune boolean DEFAULT true)
RETURNS SETOF workhorse.concurrency_policy LANGUAGE plpgsql AS $$
DECLARE d jsonb;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('workhorse:concurrency-policies', 0));
  IF prune THEN
    DELETE FROM workhorse.concurrency_policy p WHERE p.namespace = ns
      AND NOT EXISTS (SELECT FROM jsonb_array_elements(defs) e WHERE e ->> 'queue' = p.queue_name);
  END IF;
  FOR d IN SELECT * FROM jsonb_array_elements(defs) LOOP
    INSERT INTO workhorse.concurrency_policy (queue_name, namespace, max_active, max_active_per_key)
    VALUES (d ->> 'queue', ns, (d ->> 'maxActive')::int, (d ->> 'maxActivePerKey')::int)
    ON CONFLICT (queue_name) DO UPDATE SET namespace = excluded.namespace, max_active = excluded.max_active,
      max_active_per_key = excluded.max_active_per_key;
  END LOOP;
  RETURN QUERY SELECT * FROM workhorse.concurrency_policy p WHERE p.namespace = ns ORDER BY p.queue_name COLLATE "C";
END $$;
`;
