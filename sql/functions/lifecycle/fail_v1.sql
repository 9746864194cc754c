-- Ends a start as failed: the job comes back after a delay while attempts are left, and is failed for good otherwise.
-- The delay is p_retry_delay_ms if given (rule 'asked'), else what the job's retry policy says; p_give_up ends the job at
-- once. Returns the new state (ready, scheduled, failed), the delay in ms (null when failed) and the rule that chose it.
-- Raises WH004 (lease lost), WH002.
CREATE OR REPLACE FUNCTION workhorse.fail_v1(
  p_job_id bigint, p_fence_token bigint, p_error jsonb DEFAULT NULL,
  p_retry_delay_ms bigint DEFAULT NULL, p_give_up boolean DEFAULT false)
RETURNS TABLE (state text, delay_ms bigint, rule text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  v_job workhorse.job;
  v_outcome record;
BEGIN
  IF p_retry_delay_ms IS NOT NULL THEN
    PERFORM workhorse.check_delay('fail_v1', p_retry_delay_ms);
  END IF;
  v_job := workhorse.hold('fail', p_job_id, p_fence_token);
  v_outcome := workhorse.end_attempt(v_job, p_error, p_retry_delay_ms, coalesce(p_give_up, false), false);
  RETURN QUERY SELECT v_outcome.state::text, v_outcome.delay_ms, v_outcome.rule;
END $$;

-- What follows a failed start or an expired lease, for a row that the caller has locked.
CREATE OR REPLACE FUNCTION workhorse.end_attempt(
  p_job workhorse.job, p_error jsonb, p_asked_delay_ms bigint, p_give_up boolean, p_expired boolean,
  OUT state workhorse.job_state, OUT delay_ms bigint, OUT rule text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_now timestamptz := workhorse.clock();
BEGIN
  IF p_give_up THEN
    state := 'failed';
    rule := 'given up';
  ELSIF p_job.attempt >= p_job.max_attempts THEN
    state := 'failed';
    rule := 'attempts used up';
  ELSE
    IF p_asked_delay_ms IS NOT NULL THEN
      delay_ms := p_asked_delay_ms;
      rule := 'asked';
    ELSIF p_expired AND p_job.retry_policy IS NULL THEN
      delay_ms := 0;
      rule := 'lease expired';
    ELSE
      SELECT r.delay_ms, r.rule INTO delay_ms, rule
      FROM workhorse.retry_delay(p_job.retry_policy, p_job.id, p_job.attempt, p_job.retry_delay_ms) AS r;
    END IF;
    state := CASE WHEN delay_ms > 0 THEN 'scheduled' ELSE 'ready' END;
  END IF;
  UPDATE workhorse.job AS j SET state = end_attempt.state, event_xid = pg_current_xact_id(), error = p_error,
    run_at = v_now + end_attempt.delay_ms * interval '1 millisecond',
    finished_at = CASE WHEN end_attempt.state = 'failed' THEN v_now END,
    retry_rule = end_attempt.rule, retry_delay_ms = end_attempt.delay_ms
  WHERE j.id = p_job.id;
  PERFORM CASE WHEN state = 'failed' THEN workhorse.notify_slot(p_job.queue_name)
    ELSE pg_notify('workhorse_jobs', p_job.queue_name) END;
END $$;
