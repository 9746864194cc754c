-- The last row of a claim that started fewer jobs than asked.

CREATE OR REPLACE FUNCTION workhorse.come_back(p_now timestamptz, p_us bigint, p_reason text)
RETURNS workhorse.claimed
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_row workhorse.claimed;
BEGIN
  v_row.reason := p_reason;
  IF p_us IS NOT NULL THEN
    v_row.next_eligible_at := greatest(workhorse.from_us(p_us), p_now);
    v_row.wait_ms := greatest(0, (p_us - workhorse.to_us(p_now) + 999) / 1000);
  END IF;
  RETURN v_row;
END $$;

-- p_credits, p_active: the queue's bucket and its active jobs after this claim (null: no such limit).
-- p_exhausted: no more ready jobs could be started although the queue as a whole would have allowed more.
-- p_lane_us, p_lane_reason: with limits per key, when the next waiting key opens (p_lane_us 0: one is open now).
CREATE OR REPLACE FUNCTION workhorse.answer(
  p_queue text, g workhorse.gate_reading, p_now timestamptz, p_credits bigint, p_active integer,
  p_exhausted boolean, p_lane_us bigint, p_lane_reason text)
RETURNS workhorse.claimed
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_now_us bigint := workhorse.to_us(p_now);
  v_queue_us bigint := v_now_us;
  v_queue_reason text;
  v_us bigint;
  v_jobs_us bigint := p_lane_us;
  v_reason text;
  v_keyed boolean := g.key_enforced OR g.max_active_per_key IS NOT NULL OR g.keys_backed_off;
  v_scheduled record;
BEGIN
  -- When the queue as a whole allows a start.
  IF g.rate_enforced AND p_credits < g.interval_us THEN
    v_queue_us := workhorse.token_us(p_credits, greatest(v_now_us, g.filled_us, g.changed_us), g.rate_limit, g.interval_us);
    v_queue_reason := 'tokens';
  END IF;
  IF p_active >= g.max_active THEN
    v_us := workhorse.slot_us(p_queue, NULL, g, p_now, p_active - g.max_active);
    IF v_us >= v_queue_us THEN
      v_queue_us := v_us;
      v_queue_reason := 'slots';
    END IF;
  END IF;
  IF workhorse.to_us(g.backed_off_until) > v_queue_us THEN
    v_queue_us := workhorse.to_us(g.backed_off_until);
    v_queue_reason := 'backed_off';
  END IF;

  -- When some ready job does. Those that are locked by someone else do not count.
  IF NOT v_keyed AND NOT p_exhausted AND EXISTS (
    SELECT FROM workhorse.job AS j WHERE j.queue_name = p_queue AND j.state = 'ready' AND j.id > 0) THEN
    v_jobs_us := v_now_us;
  END IF;
  v_reason := CASE
    WHEN v_jobs_us IS NULL THEN 'empty'
    WHEN v_queue_reason IS NOT NULL AND v_queue_us >= v_jobs_us THEN v_queue_reason
    ELSE coalesce(p_lane_reason, v_queue_reason, 'empty')
  END;

  -- Or a scheduled one, if that is earlier.
  FOR v_scheduled IN
    SELECT j.run_at, j.concurrency_key FROM workhorse.job AS j
    WHERE j.queue_name = p_queue AND j.state = 'scheduled' ORDER BY j.run_at LIMIT 20
  LOOP
    v_us := greatest(workhorse.to_us(v_scheduled.run_at), v_now_us);
    EXIT WHEN v_us >= v_jobs_us;
    IF v_keyed AND v_scheduled.concurrency_key IS NOT NULL THEN
      v_us := greatest(v_us,
        (SELECT k.opens_us FROM workhorse.judge_key(p_queue, v_scheduled.concurrency_key, g, p_now, 1) AS k));
    END IF;
    v_jobs_us := least(v_jobs_us, v_us);
  END LOOP;

  RETURN workhorse.come_back(p_now, CASE WHEN v_jobs_us IS NOT NULL THEN greatest(v_queue_us, v_jobs_us) END, v_reason);
END $$;
