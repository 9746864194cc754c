-- Starts up to p_max_jobs ready jobs of a queue for p_worker_id and leases each for p_lease_ms, in the order in which they
-- take their turn. Whenever fewer than asked start, a last row with a null id tells when to ask again:
--   next_eligible_at, wait_ms: when a claim starts a job if nothing else happens before; null: only an event can help.
--   reason: tokens, key_tokens, slots, key_slots, backed_off or empty.
-- Raises WH002 (argument), 0A000 (isolation level).
--
-- ../../README.md has the locks and their order. In short: claims of a governed queue take turns on its admission lock; the
-- clock and every count are read after it is held, in statements that began after it was.
CREATE OR REPLACE FUNCTION workhorse.claim_v1(p_queue text, p_worker_id text, p_max_jobs integer, p_lease_ms integer)
RETURNS SETOF workhorse.claimed
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
  g workhorse.gate_reading;
  v_governed boolean;
  v_now timestamptz;
  v_now_us bigint;
  v_room integer := p_max_jobs;
  v_credits bigint;
  v_active integer;
  v_expired bigint[];
  v_started integer := 0;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM workhorse.require_read_committed('claim_v1');
  END IF;
  IF p_max_jobs BETWEEN 1 AND 1000 AND p_lease_ms BETWEEN 100 AND 86400000
    AND octet_length(p_queue) BETWEEN 1 AND 256 AND octet_length(p_worker_id) BETWEEN 1 AND 256 THEN
  ELSE
    PERFORM workhorse.refuse_claim(p_queue, p_worker_id, p_max_jobs, p_lease_ms);
  END IF;

  v_governed := workhorse.is_governed(p_queue);
  IF v_governed THEN
    PERFORM pg_advisory_xact_lock(workhorse.admission_lock_id(p_queue));
  ELSE
    PERFORM pg_advisory_xact_lock_shared(workhorse.admission_lock_id(p_queue));
  END IF;
  v_now := workhorse.clock();
  g := workhorse.gate(p_queue, v_now);
  IF g.governed AND NOT v_governed THEN
    -- A limit came in between. Other claims may be under way beside this one: only alone may it go on.
    IF NOT pg_try_advisory_xact_lock(workhorse.admission_lock_id(p_queue)) THEN
      RETURN NEXT workhorse.come_back(v_now, workhorse.to_us(v_now), 'slots');
      RETURN;
    END IF;
    v_now := workhorse.clock();
    g := workhorse.gate(p_queue, v_now);
  END IF;

  IF g.due THEN
    PERFORM workhorse.promote_due(p_queue, v_now);
  END IF;

  -- What the queue as a whole allows.
  IF g.backed_off_until IS NOT NULL THEN
    v_room := 0;
  END IF;
  IF g.rate_enforced THEN
    v_now_us := workhorse.to_us(v_now);
    IF g.bucket_revision = g.revision THEN
      v_credits := workhorse.refill(g.credits, g.filled_us, v_now_us, g.rate_limit, g.interval_us, g.burst);
    ELSE
      v_credits := workhorse.refill(
        workhorse.fold_bucket('queue', p_queue, g.bucket_revision, g.credits, g.filled_us),
        greatest(g.filled_us, g.changed_us), v_now_us, g.rate_limit, g.interval_us, g.burst);
    END IF;
    v_room := least(v_room, v_credits / g.interval_us);
  END IF;
  IF g.max_active IS NOT NULL THEN
    SELECT count(*) FILTER (WHERE j.lease_expires_at > v_now), array_agg(j.id) FILTER (WHERE j.lease_expires_at <= v_now)
    INTO v_active, v_expired FROM workhorse.job AS j WHERE j.queue_name = p_queue AND j.state = 'active';
    -- Where all of them would fit in anyway, it does not matter whether one of them was extended.
    IF v_expired IS NOT NULL
      AND (g.max_active_per_key IS NOT NULL OR v_active + cardinality(v_expired) + v_room > g.max_active) THEN
      g.unsettled := workhorse.unsettled(v_expired, v_now);
      v_active := v_active + coalesce(cardinality(g.unsettled), 0);
    END IF;
    v_room := least(v_room, greatest(0, g.max_active - v_active));
  END IF;

  IF g.key_enforced OR g.max_active_per_key IS NOT NULL OR g.keys_backed_off THEN
    RETURN QUERY SELECT * FROM workhorse.claim_lanes(
      p_queue, p_worker_id, p_max_jobs, p_lease_ms, g, v_now, v_room, v_credits, v_active);
    RETURN;
  END IF;

  IF v_room > 0 THEN
    RETURN QUERY
    WITH started AS (
      UPDATE workhorse.job AS j SET state = 'active', attempt = j.attempt + 1, fence_token = j.fence_token + 1,
        worker_id = p_worker_id, started_at = v_now, lease_expires_at = v_now + p_lease_ms * interval '1 millisecond'
      WHERE j.id = ANY (ARRAY(
        SELECT r.id FROM workhorse.job AS r WHERE r.queue_name = p_queue AND r.state = 'ready' AND r.id > 0
        ORDER BY r.place LIMIT v_room FOR NO KEY UPDATE SKIP LOCKED))
      RETURNING j.place, j.id, j.queue_name, j.type, j.payload, j.concurrency_key, j.priority::integer, j.attempt,
        j.max_attempts, j.fence_token, j.created_at, j.started_at, j.lease_expires_at)
    SELECT s.id, s.queue_name, s.type, s.payload, s.concurrency_key, s.priority, s.attempt, s.max_attempts,
      s.fence_token, s.created_at, s.started_at, s.lease_expires_at, NULL::timestamptz, NULL::bigint, NULL::text
    FROM started AS s ORDER BY s.place;
    GET DIAGNOSTICS v_started = ROW_COUNT;
    IF v_started > 0 AND g.rate_enforced THEN
      INSERT INTO workhorse.queue_admission AS a (queue_name, revision, credits, filled_us, starts)
      VALUES (p_queue, g.revision, v_credits - v_started * g.interval_us,
        greatest(v_now_us, g.filled_us, g.changed_us), v_started)
      ON CONFLICT (queue_name) DO UPDATE SET revision = excluded.revision, credits = excluded.credits,
        filled_us = excluded.filled_us, starts = a.starts + excluded.starts;
    END IF;
  END IF;

  IF v_started < p_max_jobs THEN
    RETURN NEXT workhorse.answer(p_queue, g, v_now, v_credits - v_started * g.interval_us, v_active + v_started,
      v_started < v_room, NULL, NULL);
  END IF;
END $$;

CREATE OR REPLACE FUNCTION workhorse.refuse_claim(
  p_queue text, p_worker_id text, p_max_jobs integer, p_lease_ms integer)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_problem text := coalesce(
    workhorse.name_problem('queue', p_queue),
    workhorse.name_problem('worker id', p_worker_id),
    CASE WHEN p_max_jobs BETWEEN 1 AND 1000 THEN NULL
      ELSE format('max jobs is %s; accepted: 1 to 1,000', coalesce(p_max_jobs::text, 'null')) END);
BEGIN
  IF v_problem IS NULL THEN
    PERFORM workhorse.check_lease_ms('claim_v1', p_lease_ms);
  END IF;
  PERFORM workhorse.refuse('WH002', format('invalid call of claim_v1: %s', v_problem),
    'Nothing was started. Correct the argument and claim again.', jsonb_build_object('problem', v_problem));
END $$;

-- Due scheduled jobs count as ready. Bounded; what is left is promoted by the next claim or promote_v1.
CREATE OR REPLACE FUNCTION workhorse.promote_due(p_queue text, p_now timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  UPDATE workhorse.job SET state = 'ready', event_xid = pg_current_xact_id()
  WHERE id = ANY (ARRAY(
    SELECT id FROM workhorse.job WHERE queue_name = p_queue AND state = 'scheduled' AND run_at <= p_now
    ORDER BY run_at LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED));
END $$;
