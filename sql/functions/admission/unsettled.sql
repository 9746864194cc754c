-- Expired leases that may yet turn out not to be: a heartbeat that came in time keeps its lease, but nobody can see the
-- extension before its transaction commits. Until then the job's slot is not free.

-- Of the active jobs p_expired, whose leases had expired at p_now for all that the caller could see: the keys of those that a
-- transaction under way may have extended, or one has by now. Null: none. Whoever heartbeats holds the job's row lock, and
-- reads the clock after it has it: so whose row can be locked has expired for good. The locks are given back at once, so that
-- claims do not keep recovery from those rows.
CREATE OR REPLACE FUNCTION workhorse.unsettled(p_expired bigint[], p_now timestamptz) RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_free bigint[];
BEGIN
  BEGIN
    v_free := ARRAY(
      SELECT j.id FROM workhorse.job AS j
      WHERE j.id = ANY (p_expired) AND j.state = 'active' AND j.lease_expires_at <= p_now FOR NO KEY UPDATE SKIP LOCKED);
    RAISE EXCEPTION USING ERRCODE = 'WHFRE'; -- a rollback to here is the one way to give row locks back
  EXCEPTION WHEN SQLSTATE 'WHFRE' THEN
    NULL;
  END;
  IF cardinality(v_free) = cardinality(p_expired) THEN
    RETURN NULL;
  END IF;
  RETURN (SELECT array_agg(j.concurrency_key) FROM workhorse.job AS j
    WHERE j.id = ANY (p_expired) AND j.id <> ALL (v_free) AND j.state = 'active');
END $$;

-- How many of them are a key's.
CREATE OR REPLACE FUNCTION workhorse.unsettled_of(p_unsettled text[], p_key text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT coalesce(pg_catalog.cardinality(pg_catalog.array_positions(p_unsettled, p_key)), 0) $$;
