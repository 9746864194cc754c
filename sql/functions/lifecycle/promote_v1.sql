-- Makes up to p_limit scheduled jobs that are due ready, the longest due first, and returns how many. Claims see due jobs by
-- themselves; this keeps what they find small. Raises WH002.
CREATE OR REPLACE FUNCTION workhorse.promote_v1(p_limit integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
  v_now timestamptz;
  v_promoted integer;
  v_queues text[];
BEGIN
  PERFORM workhorse.check_limit('promote_v1', p_limit);
  v_now := workhorse.clock();
  WITH promoted AS (
    UPDATE workhorse.job SET state = 'ready', event_xid = pg_current_xact_id()
    WHERE id = ANY (ARRAY(
      SELECT id FROM workhorse.job WHERE state = 'scheduled' AND run_at <= v_now
      ORDER BY run_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING queue_name)
  SELECT count(*), array_agg(DISTINCT queue_name) INTO v_promoted, v_queues FROM promoted;
  PERFORM pg_notify('workhorse_jobs', queue) FROM unnest(v_queues) AS queue;
  RETURN v_promoted;
END $$;
