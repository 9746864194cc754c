-- Ends jobs as completed, all in one transaction: what complete_v1 does for one. p_results: JSON texts in the order of the
-- ids, null for none; p_results itself may be null. Returns the ids of those whose lease is lost, which are left as they are.
-- Raises WH002.
CREATE OR REPLACE FUNCTION workhorse.complete_many_v1(
  p_job_ids bigint[], p_fence_tokens bigint[], p_results text[] DEFAULT NULL)
RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  v_now timestamptz;
  v_queues text[];
  v_queue text;
  v_lost bigint[];
BEGIN
  PERFORM workhorse.check_leases('complete_many_v1', p_job_ids, p_fence_tokens);
  IF p_results IS NOT NULL AND cardinality(p_results) <> cardinality(p_job_ids) THEN
    PERFORM workhorse.refuse('WH002',
      format('invalid call of complete_many_v1: %s job ids and %s results; accepted: as many of each, or null for no results',
        cardinality(p_job_ids), cardinality(p_results)),
      'Hand in a result, or null, for each job id.');
  END IF;
  PERFORM FROM workhorse.job WHERE id = ANY (p_job_ids) ORDER BY id FOR NO KEY UPDATE;
  v_now := workhorse.clock();
  WITH held AS (
    SELECT h.id, h.fence, h.result FROM unnest(p_job_ids, p_fence_tokens, p_results) AS h (id, fence, result)
  ), completed AS (
    UPDATE workhorse.job AS j SET state = 'completed', finished_at = v_now, event_xid = pg_current_xact_id(),
      result = h.result::jsonb, error = NULL
    FROM held AS h
    WHERE j.id = h.id AND j.fence_token = h.fence AND j.state = 'active' AND j.lease_expires_at > v_now
    RETURNING j.id, j.fence_token, j.queue_name)
  SELECT (SELECT array_agg(DISTINCT c.queue_name) FROM completed AS c),
    (SELECT array_agg(h.id) FROM held AS h
     WHERE NOT EXISTS (SELECT FROM completed AS c WHERE c.id = h.id AND c.fence_token = h.fence))
  INTO v_queues, v_lost;
  FOREACH v_queue IN ARRAY coalesce(v_queues, '{}') LOOP
    PERFORM workhorse.notify_slot(v_queue);
  END LOOP;
  RETURN QUERY SELECT unnest(v_lost);
END $$;
