-- Makes a namespace's concurrency policies what p_definitions says: all or nothing, one transaction. With p_prune the
-- namespace's other policies are removed. Returns the namespace's policies after the call, ordered by queue_name.
-- Raises WH001 (a queue is owned by another namespace), WH002 (invalid definition or argument), 0A000 (isolation level).
CREATE OR REPLACE FUNCTION workhorse.sync_concurrency_policies_v1(
  p_namespace text, p_definitions jsonb, p_prune boolean DEFAULT true)
RETURNS SETOF workhorse.concurrency_policy
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
  PERFORM workhorse.require_read_committed('sync_concurrency_policies_v1');
  IF jsonb_typeof(p_definitions) = 'array' THEN
    SELECT coalesce(bool_and(workhorse.concurrency_definition_ok(d)), true) INTO v_all_ok
    FROM jsonb_array_elements(p_definitions) AS d;
  END IF;
  PERFORM workhorse.check_sync('concurrency', p_namespace, p_definitions, p_prune, v_all_ok);

  PERFORM pg_advisory_xact_lock(hashtextextended('workhorse:concurrency-policies', 0));

  SELECT p.queue_name, p.namespace INTO v_queue, v_owner
  FROM jsonb_array_elements(p_definitions) AS d
  JOIN workhorse.concurrency_policy AS p ON p.queue_name = d ->> 'queue'
  WHERE p.namespace <> p_namespace ORDER BY p.queue_name LIMIT 1;
  IF FOUND THEN
    PERFORM workhorse.refuse_owned('concurrency', p_namespace, v_queue, v_owner);
  END IF;

  v_now := workhorse.clock();
  IF p_prune THEN
    WITH gone AS (
      DELETE FROM workhorse.concurrency_policy AS p
      WHERE p.namespace = p_namespace AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(p_definitions) AS d WHERE d ->> 'queue' = p.queue_name)
      RETURNING p.queue_name)
    SELECT array_agg(queue_name) INTO v_pruned FROM gone;
  END IF;

  WITH wanted AS (
    SELECT d ->> 'queue' AS queue_name, (d ->> 'maxActive')::numeric::integer AS max_active,
      (d ->> 'maxActivePerKey')::numeric::integer AS max_active_per_key
    FROM jsonb_array_elements(p_definitions) AS d
  ), differing AS (
    SELECT w.* FROM wanted AS w LEFT JOIN workhorse.concurrency_policy AS p USING (queue_name)
    WHERE (p.max_active, p.max_active_per_key) IS DISTINCT FROM (w.max_active, w.max_active_per_key)
  ), written AS (
    INSERT INTO workhorse.concurrency_policy (queue_name, namespace, max_active, max_active_per_key, updated_at)
    SELECT queue_name, p_namespace, max_active, max_active_per_key, v_now FROM differing
    ON CONFLICT (queue_name) DO UPDATE SET max_active = excluded.max_active,
      max_active_per_key = excluded.max_active_per_key, updated_at = excluded.updated_at
    RETURNING queue_name)
  SELECT array_agg(queue_name) INTO v_changed FROM written;

  PERFORM pg_notify('workhorse_jobs', queue) FROM unnest(v_changed || v_pruned) AS queue;

  RETURN QUERY SELECT p.* FROM workhorse.concurrency_policy AS p WHERE p.namespace = p_namespace ORDER BY p.queue_name;
END $$;
