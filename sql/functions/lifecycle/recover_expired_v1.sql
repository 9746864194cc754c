-- Brings back up to p_limit jobs whose lease has expired: an expired lease counts as a failed attempt and follows the job's
-- retry policy (without one, at once). Safe to call from any number of workers. Raises WH002.
CREATE OR REPLACE FUNCTION workhorse.recover_expired_v1(p_limit integer DEFAULT 100)
RETURNS TABLE (job_id bigint, queue_name text, state text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  v_job workhorse.job;
  v_outcome record;
  v_now timestamptz;
BEGIN
  PERFORM workhorse.check_limit('recover_expired_v1', p_limit);
  v_now := workhorse.clock();
  FOR v_job IN
    SELECT j.* FROM workhorse.job AS j
    WHERE j.state = 'active' AND j.lease_expires_at <= v_now
    ORDER BY j.lease_expires_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED
  LOOP
    v_outcome := workhorse.end_attempt(v_job,
      jsonb_build_object('name', 'LeaseExpired', 'message',
        format('worker %s let the lease expire at %s', v_job.worker_id, v_job.lease_expires_at)),
      NULL, false, true);
    job_id := v_job.id;
    queue_name := v_job.queue_name;
    state := v_outcome.state;
    RETURN NEXT;
  END LOOP;
END $$;
