-- What holds a queue's ready jobs back, on both axes, in bounded work: at most 1,000 keys are looked at and at most about
-- 1,000 waiting jobs counted; `capped` says that there is more.
--   throttled_*: for lack of tokens; blocked_*: for lack of slots. Each as a claim of unlimited size would leave them.
--   next_us: null when something could start now or nothing is ready.
CREATE OR REPLACE FUNCTION workhorse.queue_pressure(
  p_queue text, g workhorse.gate_reading, p_now timestamptz,
  OUT available_tokens integer, OUT throttled_ready integer, OUT throttled_keys integer,
  OUT active integer, OUT blocked_ready integer, OUT blocked_keys integer,
  OUT next_us bigint, OUT next_reason text, OUT ready_seen boolean, OUT capped boolean)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  c_most CONSTANT integer := 1000;
  c_count CONSTANT integer := 11000;
  v_now_us bigint := workhorse.to_us(p_now);
  v_credits bigint;
  v_slots integer;
  v_queue_us bigint := v_now_us;
  v_jobs_us bigint;
  v_jobs_reason text;
  v_key text;
  v_keys integer := 0;
  v_ready integer;
  v_judged record;
  v_by_tokens bigint := 0;
  v_by_slots bigint := 0;
  v_filled_us bigint := greatest(v_now_us, g.filled_us, g.changed_us);
  v_us bigint;
BEGIN
  capped := false;
  throttled_ready := 0;
  throttled_keys := 0;
  blocked_ready := 0;
  blocked_keys := 0;
  active := (SELECT count(*) FROM workhorse.job AS j
    WHERE j.queue_name = p_queue AND j.state = 'active' AND j.lease_expires_at > p_now);
  IF g.rate_enforced THEN
    v_credits := workhorse.refill(workhorse.fold_bucket('queue', p_queue, g.bucket_revision, g.credits, g.filled_us),
      greatest(g.filled_us, g.changed_us), v_now_us, g.rate_limit, g.interval_us, g.burst);
    available_tokens := v_credits / g.interval_us;
    IF available_tokens < 1 THEN
      v_queue_us := workhorse.token_us(v_credits, v_filled_us, g.rate_limit, g.interval_us);
      next_reason := 'tokens';
    END IF;
  END IF;
  IF g.max_active IS NOT NULL THEN
    v_slots := greatest(0, g.max_active - active);
    IF v_slots < 1 THEN
      v_us := workhorse.slot_us(p_queue, NULL, g, p_now, active - g.max_active);
      IF v_us >= v_queue_us THEN
        v_queue_us := v_us;
        next_reason := 'slots';
      END IF;
    END IF;
  END IF;
  IF workhorse.to_us(g.backed_off_until) > v_queue_us THEN
    v_queue_us := workhorse.to_us(g.backed_off_until);
    next_reason := 'backed_off';
  END IF;

  IF g.key_enforced OR g.max_active_per_key IS NOT NULL OR g.keys_backed_off THEN
    -- Key by key, jumping; the keyless jobs (null) sort last.
    v_key := '';
    LOOP
      SELECT j.concurrency_key INTO v_key FROM workhorse.job AS j
      WHERE j.queue_name = p_queue AND j.state = 'ready' AND j.concurrency_key > v_key
      ORDER BY j.concurrency_key LIMIT 1;
      EXIT WHEN NOT FOUND;
      v_keys := v_keys + 1;
      IF v_keys > c_most THEN
        capped := true;
        EXIT;
      END IF;
      v_judged := workhorse.judge_key(p_queue, v_key, g, p_now, c_count);
      IF v_judged.tokens < 1 AND v_judged.waits_for IS DISTINCT FROM 'back_off' THEN
        throttled_keys := throttled_keys + 1;
      END IF;
      IF v_judged.slots < 1 THEN
        blocked_keys := blocked_keys + 1;
      END IF;
      IF v_jobs_us IS NULL OR coalesce(v_judged.opens_us, v_now_us) < v_jobs_us THEN
        v_jobs_us := coalesce(v_judged.opens_us, v_now_us);
        v_jobs_reason := v_judged.waits_for;
      END IF;
      CONTINUE WHEN throttled_ready > c_most AND blocked_ready > c_most;
      v_ready := (SELECT count(*) FROM (SELECT FROM workhorse.job AS j
        WHERE j.queue_name = p_queue AND j.concurrency_key = v_key AND j.state = 'ready'
        LIMIT least(c_count, 1 + c_most + least(v_judged.tokens, v_judged.slots))) AS counted);
      throttled_ready := throttled_ready + v_ready - least(v_ready, v_judged.tokens);
      blocked_ready := blocked_ready + v_ready - least(v_ready, v_judged.slots);
      v_by_tokens := v_by_tokens + least(v_ready, v_judged.tokens);
      v_by_slots := v_by_slots + least(v_ready, v_judged.slots);
    END LOOP;
    v_ready := (SELECT count(*) FROM (SELECT FROM workhorse.job AS j
      WHERE j.queue_name = p_queue AND j.concurrency_key IS NULL AND j.state = 'ready' LIMIT c_count) AS counted);
  ELSE
    v_ready := (SELECT count(*) FROM (SELECT FROM workhorse.job AS j
      WHERE j.queue_name = p_queue AND j.state = 'ready' AND j.id > 0
      LIMIT least(c_count, 1 + c_most + greatest(available_tokens, v_slots))) AS counted);
  END IF;
  IF v_ready > 0 THEN
    v_jobs_us := v_now_us;
    v_jobs_reason := NULL;
  END IF;
  v_by_tokens := v_by_tokens + v_ready;
  v_by_slots := v_by_slots + v_ready;
  capped := capped OR v_ready >= c_count;

  throttled_ready := throttled_ready + greatest(0, v_by_tokens - available_tokens);
  blocked_ready := blocked_ready + greatest(0, v_by_slots - v_slots);
  capped := capped OR throttled_ready > c_most OR blocked_ready > c_most;
  throttled_ready := least(throttled_ready, c_most);
  blocked_ready := least(blocked_ready, c_most);
  ready_seen := v_jobs_us IS NOT NULL;
  IF ready_seen AND greatest(v_queue_us, v_jobs_us) > v_now_us THEN
    next_us := greatest(v_queue_us, v_jobs_us);
    IF next_reason IS NULL OR v_jobs_us > v_queue_us THEN
      next_reason := CASE v_jobs_reason WHEN 'tokens' THEN 'key_tokens' WHEN 'slots' THEN 'key_slots'
        WHEN 'back_off' THEN 'backed_off' END;
    END IF;
  ELSE
    next_reason := NULL;
  END IF;
END $$;
