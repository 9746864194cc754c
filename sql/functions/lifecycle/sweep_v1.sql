-- Bounded clean-up, for workers' maintenance: finished jobs that were kept for p_keep_ms (7 days by default), back-offs that
-- are over, idle keys' full buckets, and what deleted limits left behind. Looks at or removes at most about p_limit rows of
-- each kind and returns how many rows it removed. Safe to call from any number of workers. Raises WH002.
CREATE OR REPLACE FUNCTION workhorse.sweep_v1(p_limit integer DEFAULT 1000, p_keep_ms bigint DEFAULT 604800000)
RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
  v_now timestamptz;
  v_removed integer;
  v_count integer;
BEGIN
  PERFORM workhorse.require_read_committed('sweep_v1');
  PERFORM workhorse.check_limit('sweep_v1', p_limit);
  PERFORM workhorse.check_delay('sweep_v1', p_keep_ms);
  v_now := workhorse.clock();

  DELETE FROM workhorse.job WHERE id = ANY (ARRAY(
    SELECT id FROM workhorse.job
    WHERE state IN ('completed', 'failed', 'cancelled') AND finished_at <= v_now - p_keep_ms * interval '1 millisecond'
    ORDER BY finished_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_removed = ROW_COUNT;

  DELETE FROM workhorse.back_off WHERE (queue_name, concurrency_key) IN (
    SELECT queue_name, concurrency_key FROM workhorse.back_off WHERE until <= v_now
    ORDER BY queue_name, concurrency_key LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_count = ROW_COUNT;
  v_removed := v_removed + v_count;

  RETURN v_removed + workhorse.sweep_admission(p_limit);
END $$;
