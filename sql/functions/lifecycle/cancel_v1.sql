-- Cancels a ready, scheduled or active job and returns the state it was in; null when there was nothing to cancel (it is
-- finished, or there is no such job). The holder of an active one is refused from then on. A spent token stays spent.
CREATE OR REPLACE FUNCTION workhorse.cancel_v1(p_job_id bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  v_job workhorse.job;
BEGIN
  SELECT * INTO v_job FROM workhorse.job WHERE id = p_job_id FOR NO KEY UPDATE;
  IF v_job.state IN ('ready', 'scheduled', 'active') THEN
    UPDATE workhorse.job SET state = 'cancelled', event_xid = pg_current_xact_id(), finished_at = workhorse.clock() WHERE id = p_job_id;
    IF v_job.state = 'active' THEN
      PERFORM workhorse.notify_slot(v_job.queue_name);
    END IF;
    RETURN v_job.state::text;
  END IF;
  RETURN NULL;
END $$;
