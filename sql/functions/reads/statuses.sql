-- The rate limits of these queues (all when null) with what they hold back just now. One row per policy, by queue_name.
--   available_tokens: whole tokens in the queue's bucket. throttled_ready: ready jobs that a claim of unlimited size would
--   leave for lack of queue or key tokens. throttled_keys: keys with a ready job that their own bucket cannot start.
--   next_eligible_at: null when something could start now or nothing is ready. capped: a count ended at its bound (1,000).
--   starts: ever charged to the queue's bucket.
CREATE OR REPLACE FUNCTION workhorse.rate_limit_statuses_v1(p_queues text[] DEFAULT NULL)
RETURNS TABLE (
  queue_name text, namespace text, rate_limit integer, rate_interval_ms integer, rate_burst integer,
  per_key_limit integer, per_key_interval_ms integer, per_key_burst integer,
  available_tokens integer, throttled_ready integer, throttled_keys integer, next_eligible_at timestamptz,
  capped boolean, starts bigint, backed_off_until timestamptz)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
  v_policy workhorse.rate_limit_policy;
  v_now timestamptz;
  g workhorse.gate_reading;
  v_pressure record;
BEGIN
  FOR v_policy IN
    SELECT * FROM workhorse.rate_limit_policy AS p
    WHERE p_queues IS NULL OR p.queue_name = ANY (p_queues) ORDER BY p.queue_name
  LOOP
    v_now := workhorse.clock();
    g := workhorse.gate(v_policy.queue_name, v_now);
    CONTINUE WHEN NOT g.rate_enforced;
    v_pressure := workhorse.queue_pressure(v_policy.queue_name, g, v_now);
    queue_name := v_policy.queue_name;
    namespace := v_policy.namespace;
    rate_limit := v_policy.rate_limit;
    rate_interval_ms := v_policy.rate_interval_ms;
    rate_burst := v_policy.rate_burst;
    per_key_limit := v_policy.per_key_limit;
    per_key_interval_ms := v_policy.per_key_interval_ms;
    per_key_burst := v_policy.per_key_burst;
    available_tokens := v_pressure.available_tokens;
    throttled_ready := v_pressure.throttled_ready;
    throttled_keys := v_pressure.throttled_keys;
    next_eligible_at := workhorse.from_us(v_pressure.next_us);
    capped := v_pressure.capped;
    starts := g.starts;
    backed_off_until := g.backed_off_until;
    RETURN NEXT;
  END LOOP;
END $$;

-- The caps of these queues (all when null) with what they hold back just now. One row per policy, by queue_name.
--   active: jobs with an unexpired lease. blocked_ready: ready jobs that a claim of unlimited size would leave for lack of a
--   slot of the queue or the key; blocked_keys: keys with a ready job and no free slot. capped: a count ended at its bound.
CREATE OR REPLACE FUNCTION workhorse.concurrency_statuses_v1(p_queues text[] DEFAULT NULL)
RETURNS TABLE (
  queue_name text, namespace text, max_active integer, max_active_per_key integer,
  active integer, blocked_ready integer, blocked_keys integer, capped boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
  v_policy workhorse.concurrency_policy;
  v_now timestamptz;
  g workhorse.gate_reading;
  v_pressure record;
BEGIN
  FOR v_policy IN
    SELECT * FROM workhorse.concurrency_policy AS p
    WHERE p_queues IS NULL OR p.queue_name = ANY (p_queues) ORDER BY p.queue_name
  LOOP
    v_now := workhorse.clock();
    g := workhorse.gate(v_policy.queue_name, v_now);
    CONTINUE WHEN g.max_active IS NULL;
    v_pressure := workhorse.queue_pressure(v_policy.queue_name, g, v_now);
    queue_name := v_policy.queue_name;
    namespace := v_policy.namespace;
    max_active := v_policy.max_active;
    max_active_per_key := v_policy.max_active_per_key;
    active := v_pressure.active;
    blocked_ready := v_pressure.blocked_ready;
    blocked_keys := v_pressure.blocked_keys;
    capped := v_pressure.capped;
    RETURN NEXT;
  END LOOP;
END $$;
