-- Checks of arguments that several functions share. Each raises WH002.

CREATE OR REPLACE FUNCTION workhorse.check_lease_ms(p_what text, p_lease_ms integer) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF p_lease_ms IS NULL OR p_lease_ms NOT BETWEEN 100 AND 86400000 THEN
    PERFORM workhorse.refuse('WH002',
      format('invalid call of %s: lease is %s ms; accepted: 100 to 86,400,000 ms', p_what, coalesce(p_lease_ms::text, 'null')),
      'Choose a lease well above the longest pause between two heartbeats.');
  END IF;
END $$;

CREATE OR REPLACE FUNCTION workhorse.check_limit(p_what text, p_limit integer) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 10000 THEN
    PERFORM workhorse.refuse('WH002',
      format('invalid call of %s: limit is %s; accepted: 1 to 10,000', p_what, coalesce(p_limit::text, 'null')),
      'Call again while it returns as many as asked for.');
  END IF;
END $$;

CREATE OR REPLACE FUNCTION workhorse.check_delay(p_what text, p_delay_ms bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF p_delay_ms IS NULL OR p_delay_ms NOT BETWEEN 0 AND 31536000000 THEN
    PERFORM workhorse.refuse('WH002',
      format('invalid call of %s: delay is %s ms; accepted: 0 to 31,536,000,000 ms (365 days)',
        p_what, coalesce(p_delay_ms::text, 'null')),
      'Nothing was changed. Correct the argument and call again.');
  END IF;
END $$;

CREATE OR REPLACE FUNCTION workhorse.check_leases(p_what text, p_job_ids bigint[], p_fence_tokens bigint[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF p_job_ids IS NULL OR cardinality(p_job_ids) IS DISTINCT FROM cardinality(p_fence_tokens) OR cardinality(p_job_ids) > 10000
    OR array_position(p_job_ids, NULL) IS NOT NULL OR array_position(p_fence_tokens, NULL) IS NOT NULL THEN
    PERFORM workhorse.refuse('WH002',
      format('invalid call of %s: %s job ids and %s fence tokens; accepted: as many of each, at most 10,000, none null',
        p_what, coalesce(cardinality(p_job_ids)::text, 'no'), coalesce(cardinality(p_fence_tokens)::text, 'no')),
      'Hand in the ids and fence tokens that claim_v1 returned, in the same order.');
  END IF;
END $$;
