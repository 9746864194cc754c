-- Gives an unhandled job back after a delay in ms (30 s by default): the start does not count as an attempt, and its token
-- stays spent. Raises WH004 (lease lost), WH002.
CREATE OR REPLACE FUNCTION workhorse.release_v1(p_job_id bigint, p_fence_token bigint, p_delay_ms bigint DEFAULT 30000)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  v_job workhorse.job;
BEGIN
  PERFORM workhorse.check_delay('release_v1', p_delay_ms);
  v_job := workhorse.hold('release', p_job_id, p_fence_token);
  UPDATE workhorse.job SET
    state = CASE WHEN p_delay_ms > 0 THEN 'scheduled' ELSE 'ready' END::workhorse.job_state,
    event_xid = pg_current_xact_id(), attempt = attempt - 1, run_at = workhorse.clock() + p_delay_ms * interval '1 millisecond'
  WHERE id = p_job_id;
  PERFORM pg_notify('workhorse_jobs', v_job.queue_name);
END $$;
