-- Ends a job as completed. Only for the holder of its unexpired lease: raises WH004 otherwise.
CREATE OR REPLACE FUNCTION workhorse.complete_v1(p_job_id bigint, p_fence_token bigint, p_result jsonb DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  v_queue text;
  v_lease timestamptz;
BEGIN
  UPDATE workhorse.job SET state = 'completed', finished_at = workhorse.clock(), event_xid = pg_current_xact_id(),
    result = p_result, error = NULL
  WHERE id = p_job_id AND state = 'active' AND fence_token = p_fence_token
  RETURNING queue_name, lease_expires_at INTO v_queue, v_lease;
  -- Checked after the update, which may have waited for the row; an error undoes it.
  IF v_lease > workhorse.clock() THEN
    PERFORM workhorse.notify_slot(v_queue);
  ELSE
    PERFORM workhorse.refuse_lease('complete', p_job_id, p_fence_token, CASE WHEN v_lease IS NOT NULL THEN 'active' END);
  END IF;
END $$;
