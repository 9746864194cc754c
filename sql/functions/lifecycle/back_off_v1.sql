-- Closes a queue (p_key null) or one key of it to new starts for p_for_ms, because the outside world said so. It adds no
-- tokens and takes none. The longest back-off in force counts; p_for_ms = 0 lifts it. Returns until when the queue or key
-- is closed (null when lifted). p_reason: at most 1,000 characters, shown in statuses. Raises WH002.
CREATE OR REPLACE FUNCTION workhorse.back_off_v1(
  p_queue text, p_key text, p_for_ms bigint, p_reason text DEFAULT NULL)
RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_problem text := coalesce(workhorse.name_problem('queue', p_queue),
    CASE WHEN p_key IS NOT NULL THEN workhorse.name_problem('key', p_key) END,
    CASE WHEN length(p_reason) > 1000 THEN
      format('reason has %s characters; accepted: at most 1,000', length(p_reason)) END);
  v_until timestamptz;
BEGIN
  IF v_problem IS NOT NULL THEN
    PERFORM workhorse.refuse('WH002', format('invalid call of back_off_v1: %s', v_problem),
      'Nothing was changed. Correct the argument and call again.', jsonb_build_object('problem', v_problem));
  END IF;
  PERFORM workhorse.check_delay('back_off_v1', p_for_ms);
  IF p_for_ms = 0 THEN
    DELETE FROM workhorse.back_off WHERE queue_name = p_queue AND concurrency_key = coalesce(p_key, '');
    -- Claims look again at keys that something happened to.
    UPDATE workhorse.job SET event_xid = pg_current_xact_id() WHERE id = (
      SELECT id FROM workhorse.job WHERE queue_name = p_queue AND concurrency_key = p_key AND state = 'ready'
      ORDER BY place LIMIT 1 FOR NO KEY UPDATE);
    PERFORM pg_notify('workhorse_jobs', p_queue);
    RETURN NULL;
  END IF;
  INSERT INTO workhorse.back_off AS b (queue_name, concurrency_key, until, reason)
  VALUES (p_queue, coalesce(p_key, ''), workhorse.clock() + p_for_ms * interval '1 millisecond', p_reason)
  ON CONFLICT (queue_name, concurrency_key) DO UPDATE SET
    until = greatest(b.until, excluded.until),
    reason = CASE WHEN excluded.until > b.until THEN excluded.reason ELSE b.reason END
  RETURNING until INTO v_until;
  RETURN v_until;
END $$;
