-- Leases: only the present holder of an unexpired lease can move an active job. The holder is told by the fence token,
-- which every start raises. The clock is read after the row is locked, so a wait for the lock cannot stretch a lease.

-- Locks the job for its holder. Raises WH004 when the lease is lost.
CREATE OR REPLACE FUNCTION workhorse.hold(p_what text, p_job_id bigint, p_fence_token bigint) RETURNS workhorse.job
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_job workhorse.job;
BEGIN
  SELECT * INTO v_job FROM workhorse.job WHERE id = p_job_id FOR NO KEY UPDATE;
  IF v_job.state = 'active' AND v_job.fence_token = p_fence_token AND v_job.lease_expires_at > workhorse.clock() THEN
    RETURN v_job;
  END IF;
  PERFORM workhorse.refuse_lease(p_what, p_job_id, p_fence_token);
  RETURN NULL;
END $$;

-- p_state: the job's state if the caller has changed it already, which the error undoes.
CREATE OR REPLACE FUNCTION workhorse.refuse_lease(
  p_what text, p_job_id bigint, p_fence_token bigint, p_state text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_job workhorse.job;
  v_why text;
BEGIN
  IF p_job_id IS NULL OR p_fence_token IS NULL THEN
    PERFORM workhorse.refuse('WH002', format('invalid call of %s: job id is %s, fence token is %s; accepted: two integers',
      p_what, coalesce(p_job_id::text, 'null'), coalesce(p_fence_token::text, 'null')), 'Hand in what claim_v1 returned.');
  END IF;
  SELECT * INTO v_job FROM workhorse.job WHERE id = p_job_id;
  v_why := CASE
    WHEN v_job.id IS NULL THEN 'there is no such job'
    WHEN v_job.fence_token <> p_fence_token THEN
      format('it was started again (fence token %s, now %s)', p_fence_token, v_job.fence_token)
    WHEN v_job.lease_expires_at <= workhorse.clock() THEN format('the lease expired at %s', v_job.lease_expires_at)
    ELSE format('it is %s', v_job.state)
  END;
  PERFORM workhorse.refuse('WH004', format('cannot %s job %s: its lease is lost: %s', p_what, p_job_id, v_why),
    'Stop working on it and undo what can be undone. Heartbeat more often, or claim with a longer lease.',
    jsonb_build_object('job_id', p_job_id::text, 'fence_token', p_fence_token::text,
      'queue', v_job.queue_name, 'state', coalesce(p_state, v_job.state::text), 'why', v_why));
END $$;

-- Tells waiting workers that a slot was freed. Without a cap no slot was waited for.
CREATE OR REPLACE FUNCTION workhorse.notify_slot(p_queue text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF EXISTS (SELECT FROM workhorse.concurrency_policy WHERE queue_name = p_queue) THEN
    PERFORM pg_notify('workhorse_jobs', p_queue);
  END IF;
END $$;
