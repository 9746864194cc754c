-- Why a job is not running, as JSON: {id, queue, key, state, reason, message, ahead, ahead_capped, earliest_at}; null when
-- there is no such job.
--   reason: empty (nothing stands in its way but a worker's claim), turn (others come first), tokens, key_tokens, slots,
--   key_slots, backed_off, scheduled, or the state it is in. ahead: ready jobs before it in its queue (or of its key when
--   only the key waits), counted up to 1,000. earliest_at: when it could start at the earliest; null: now, or unknown.
CREATE OR REPLACE FUNCTION workhorse.explain_job_v1(p_job_id bigint) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
  v_now timestamptz := workhorse.clock();
  v_job workhorse.job;
  g workhorse.gate_reading;
  v_pressure record;
  v_judged record;
  v_ahead integer;
  v_reason text;
  v_us bigint;
  v_message text;
BEGIN
  SELECT * INTO v_job FROM workhorse.job WHERE id = p_job_id;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  IF v_job.state = 'ready' OR v_job.state = 'scheduled' AND v_job.run_at <= v_now THEN
    g := workhorse.gate(v_job.queue_name, v_now);
    v_pressure := workhorse.queue_pressure(v_job.queue_name, g, v_now);
    v_judged := workhorse.judge_key(v_job.queue_name, v_job.concurrency_key, g, v_now, 1);
    IF v_judged.opens_us IS NULL THEN
      v_ahead := (SELECT count(*) FROM (SELECT FROM workhorse.job AS j
        WHERE j.queue_name = v_job.queue_name AND j.state = 'ready' AND j.id > 0 AND j.place < v_job.place
        LIMIT 1000) AS c);
    ELSE
      v_ahead := (SELECT count(*) FROM (SELECT FROM workhorse.job AS j
        WHERE j.queue_name = v_job.queue_name AND j.state = 'ready' AND j.concurrency_key = v_job.concurrency_key
          AND j.place < v_job.place LIMIT 1000) AS c);
    END IF;
    v_us := v_pressure.next_us;
    v_reason := CASE WHEN v_pressure.next_reason IN ('tokens', 'slots', 'backed_off') THEN v_pressure.next_reason END;
    IF v_job.concurrency_key IS NOT NULL AND v_judged.opens_us IS NOT NULL
      AND (v_reason IS NULL OR v_judged.opens_us > v_us) THEN
      v_us := v_judged.opens_us;
      v_reason := CASE v_judged.waits_for WHEN 'tokens' THEN 'key_tokens' WHEN 'slots' THEN 'key_slots'
        ELSE 'backed_off' END;
    ELSIF v_reason IS NULL THEN
      v_us := NULL;
      v_reason := CASE WHEN v_ahead > 0 THEN 'turn' ELSE 'empty' END;
    END IF;
    v_message := CASE v_reason
      WHEN 'tokens' THEN format('queue "%s" has no token left', v_job.queue_name)
      WHEN 'key_tokens' THEN 'its concurrency key has no token left'
      WHEN 'slots' THEN format('all %s slots of queue "%s" are taken', g.max_active, v_job.queue_name)
      WHEN 'key_slots' THEN format('all %s slots of its concurrency key are taken', g.max_active_per_key)
      WHEN 'backed_off' THEN 'a back-off is in force'
      WHEN 'turn' THEN 'other jobs come first'
      ELSE 'nothing stands in its way: it starts when a worker claims from the queue' END;
  ELSIF v_job.state = 'scheduled' THEN
    v_reason := 'scheduled';
    v_us := workhorse.to_us(v_job.run_at);
    v_message := CASE WHEN v_job.retry_rule IS NULL THEN 'it is scheduled for later'
      ELSE format('it waits for its next attempt (rule: %s)', v_job.retry_rule) END;
  ELSIF v_job.state = 'active' AND v_job.lease_expires_at <= v_now THEN
    v_reason := 'lease_expired';
    v_message := format('its lease by worker %s expired; any worker''s maintenance brings it back', v_job.worker_id);
  ELSE
    v_reason := v_job.state::text;
    v_message := CASE v_job.state WHEN 'active' THEN format('it is running on worker %s', v_job.worker_id)
      WHEN 'failed' THEN format('it failed for good (rule: %s)', v_job.retry_rule)
      ELSE format('it is %s', v_job.state) END;
  END IF;
  RETURN jsonb_build_object('id', v_job.id::text, 'queue', v_job.queue_name, 'key', v_job.concurrency_key,
    'state', v_job.state, 'attempt', v_job.attempt, 'max_attempts', v_job.max_attempts, 'reason', v_reason,
    'message', v_message, 'ahead', v_ahead, 'ahead_capped', v_ahead >= 1000,
    'earliest_at', workhorse.from_us(v_us), 'lease_expires_at', CASE WHEN v_job.state = 'active' THEN v_job.lease_expires_at END);
END $$;
