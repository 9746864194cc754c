-- Makes a namespace's rate-limit policies what p_definitions says: all or nothing, one transaction. With p_prune the
-- namespace's other policies are removed. Returns the namespace's policies after the call, ordered by queue_name.
-- Raises WH001 (a queue is owned by another namespace), WH002 (invalid definition or argument), 0A000 (isolation level).
--
-- Buckets are not touched: each change is appended to rate_limit_change with one reading of the clock, and claims carry
-- their buckets over. So a sync waits for no claim and no claim waits for a sync.
CREATE OR REPLACE FUNCTION workhorse.sync_rate_limit_policies_v1(
  p_namespace text, p_definitions jsonb, p_prune boolean DEFAULT true)
RETURNS SETOF workhorse.rate_limit_policy
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_all_ok boolean := false;
  v_queue text;
  v_owner text;
  v_now timestamptz;
  v_changed text[];
  v_pruned text[];
BEGIN
  PERFORM workhorse.require_read_committed('sync_rate_limit_policies_v1');
  IF jsonb_typeof(p_definitions) = 'array' THEN
    SELECT coalesce(bool_and(workhorse.rate_limit_definition_ok(d)), true) INTO v_all_ok
    FROM jsonb_array_elements(p_definitions) AS d;
  END IF;
  PERFORM workhorse.check_sync('rate-limit', p_namespace, p_definitions, p_prune, v_all_ok);

  PERFORM pg_advisory_xact_lock(hashtextextended('workhorse:rate-limit-policies', 0));

  SELECT p.queue_name, p.namespace INTO v_queue, v_owner
  FROM jsonb_array_elements(p_definitions) AS d
  JOIN workhorse.rate_limit_policy AS p ON p.queue_name = d ->> 'queue'
  WHERE p.namespace <> p_namespace ORDER BY p.queue_name LIMIT 1;
  IF FOUND THEN
    PERFORM workhorse.refuse_owned('rate-limit', p_namespace, v_queue, v_owner);
  END IF;

  v_now := workhorse.clock();
  IF p_prune THEN
    WITH gone AS (
      DELETE FROM workhorse.rate_limit_policy AS p
      WHERE p.namespace = p_namespace AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(p_definitions) AS d WHERE d ->> 'queue' = p.queue_name)
      RETURNING p.queue_name)
    SELECT array_agg(queue_name) INTO v_pruned FROM gone;
  END IF;

  WITH wanted AS (
    SELECT d ->> 'queue' AS queue_name,
      (d -> 'rate' ->> 'limit')::numeric::integer AS rate_limit,
      (d -> 'rate' ->> 'intervalMs')::numeric::integer AS rate_interval_ms,
      (d -> 'rate' ->> 'burst')::numeric::integer AS rate_burst,
      (d -> 'perKey' ->> 'limit')::numeric::integer AS per_key_limit,
      (d -> 'perKey' ->> 'intervalMs')::numeric::integer AS per_key_interval_ms,
      (d -> 'perKey' ->> 'burst')::numeric::integer AS per_key_burst
    FROM jsonb_array_elements(p_definitions) AS d
  ), differing AS (
    SELECT w.* FROM wanted AS w LEFT JOIN workhorse.rate_limit_policy AS p USING (queue_name)
    WHERE (p.rate_limit, p.rate_interval_ms, p.rate_burst, p.per_key_limit, p.per_key_interval_ms, p.per_key_burst)
      IS DISTINCT FROM
      (w.rate_limit, w.rate_interval_ms, w.rate_burst, w.per_key_limit, w.per_key_interval_ms, w.per_key_burst)
  ), written AS (
    INSERT INTO workhorse.rate_limit_policy (queue_name, namespace, rate_limit, rate_interval_ms, rate_burst,
      per_key_limit, per_key_interval_ms, per_key_burst, updated_at)
    SELECT queue_name, p_namespace, rate_limit, rate_interval_ms, rate_burst,
      per_key_limit, per_key_interval_ms, per_key_burst, v_now
    FROM differing
    ON CONFLICT (queue_name) DO UPDATE SET
      rate_limit = excluded.rate_limit, rate_interval_ms = excluded.rate_interval_ms, rate_burst = excluded.rate_burst,
      per_key_limit = excluded.per_key_limit, per_key_interval_ms = excluded.per_key_interval_ms,
      per_key_burst = excluded.per_key_burst, updated_at = excluded.updated_at
    RETURNING queue_name)
  SELECT array_agg(queue_name) INTO v_changed FROM written;

  PERFORM workhorse.record_rate_limit_changes(v_changed || v_pruned, workhorse.to_us(v_now));
  PERFORM pg_notify('workhorse_jobs', queue) FROM unnest(v_changed || v_pruned) AS queue;

  RETURN QUERY SELECT p.* FROM workhorse.rate_limit_policy AS p WHERE p.namespace = p_namespace ORDER BY p.queue_name;
END $$;

-- Appends what rate_limit_policy now says of these queues to rate_limit_change. The caller holds the sync lock.
CREATE OR REPLACE FUNCTION workhorse.record_rate_limit_changes(p_queues text[], p_now_us bigint) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
  INSERT INTO workhorse.rate_limit_change (queue_name, revision, changed_us,
    enforced, rate_limit, rate_interval_us, rate_burst, unspent_credits,
    key_revision, key_enforced, key_limit, key_interval_us, key_burst, key_unspent_credits)
  SELECT next.queue_name, coalesce(last.revision, 0) + 1, greatest(p_now_us, last.changed_us),
    next.enforced, next.rate_limit, next.interval_us, next.burst,
    CASE WHEN last.revision IS NULL THEN next.burst * next.interval_us
      ELSE workhorse.redefine(last.unspent_credits, last.changed_us, p_now_us, last.enforced,
        last.rate_limit, last.rate_interval_us, last.rate_burst, next.interval_us, next.burst) END,
    CASE WHEN (last.key_enforced, last.key_limit, last.key_interval_us, last.key_burst) IS NOT DISTINCT FROM
        (next.key_enforced, next.key_limit, next.key_interval_us, next.key_burst)
      THEN last.key_revision ELSE coalesce(last.revision, 0) + 1 END,
    next.key_enforced, next.key_limit, next.key_interval_us, next.key_burst,
    CASE WHEN last.key_limit IS NULL THEN next.key_burst * next.key_interval_us
      ELSE workhorse.redefine(last.key_unspent_credits, last.changed_us, p_now_us, last.key_enforced,
        last.key_limit, last.key_interval_us, last.key_burst, next.key_interval_us, next.key_burst) END
  FROM (SELECT queue COLLATE "C" AS queue_name FROM unnest(p_queues) AS queue) AS changed
  LEFT JOIN LATERAL (
    SELECT c.* FROM workhorse.rate_limit_change AS c WHERE c.queue_name = changed.queue_name
    ORDER BY c.revision DESC LIMIT 1) AS last ON true
  LEFT JOIN workhorse.rate_limit_policy AS policy ON policy.queue_name = changed.queue_name
  CROSS JOIN LATERAL (
    -- A limit that is gone keeps its last definition: what is left in the buckets goes on filling by it.
    SELECT changed.queue_name,
      policy.queue_name IS NOT NULL AS enforced,
      coalesce(policy.rate_limit, last.rate_limit) AS rate_limit,
      coalesce(policy.rate_interval_ms * 1000::bigint, last.rate_interval_us) AS interval_us,
      coalesce(policy.rate_burst, last.rate_burst) AS burst,
      policy.per_key_limit IS NOT NULL AS key_enforced,
      coalesce(policy.per_key_limit, last.key_limit) AS key_limit,
      coalesce(policy.per_key_interval_ms * 1000::bigint, last.key_interval_us) AS key_interval_us,
      coalesce(policy.per_key_burst, last.key_burst) AS key_burst) AS next
$$;
