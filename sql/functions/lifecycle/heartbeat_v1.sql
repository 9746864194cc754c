-- Extends the leases of jobs that the caller holds to p_lease_ms from now. Returns the ids of those whose lease is lost;
-- their handlers must stop. Raises WH002.
CREATE OR REPLACE FUNCTION workhorse.heartbeat_v1(p_job_ids bigint[], p_fence_tokens bigint[], p_lease_ms integer)
RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  v_now timestamptz;
BEGIN
  PERFORM workhorse.check_lease_ms('heartbeat_v1', p_lease_ms);
  PERFORM workhorse.check_leases('heartbeat_v1', p_job_ids, p_fence_tokens);
  PERFORM FROM workhorse.job WHERE id = ANY (p_job_ids) ORDER BY id FOR NO KEY UPDATE;
  v_now := workhorse.clock();
  RETURN QUERY
  WITH held AS (
    SELECT h.id, h.fence FROM unnest(p_job_ids, p_fence_tokens) AS h (id, fence)
  ), extended AS (
    UPDATE workhorse.job AS j SET lease_expires_at = v_now + p_lease_ms * interval '1 millisecond'
    FROM held AS h
    WHERE j.id = h.id AND j.fence_token = h.fence AND j.state = 'active' AND j.lease_expires_at > v_now
    RETURNING j.id)
  SELECT h.id FROM held AS h WHERE NOT EXISTS (SELECT FROM extended AS e WHERE e.id = h.id);
END $$;
