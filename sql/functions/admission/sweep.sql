-- Clean-up of what admission keeps, in bounded steps, under the queue's admission lock.

-- Looks at p_most lanes after p_after in the order of keys. Removes those without ready jobs whose bucket is full again (a
-- key without a lane has just that) and brings the others to the present definition. next_after: '' after the last.
CREATE OR REPLACE FUNCTION workhorse.sweep_lanes(
  p_queue text, g workhorse.gate_reading, p_now timestamptz, p_after text, p_most integer,
  OUT next_after text, OUT removed integer)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_read_us bigint := greatest(workhorse.to_us(p_now), g.changed_us);
  v_keys text[];
BEGIN
  SELECT array_agg(l.concurrency_key ORDER BY l.concurrency_key) INTO v_keys
  FROM (SELECT s.concurrency_key FROM workhorse.lane AS s
    WHERE s.queue_name = p_queue AND s.concurrency_key > p_after ORDER BY s.concurrency_key LIMIT p_most) AS l;
  next_after := CASE WHEN cardinality(v_keys) = p_most THEN v_keys[p_most] ELSE '' END;
  DELETE FROM workhorse.lane AS l
  WHERE l.queue_name = p_queue AND l.concurrency_key = ANY (v_keys) AND l.head IS NULL
    AND (l.revision IS NULL OR g.key_limit IS NULL
      OR workhorse.lane_credits(p_queue, g, l.revision, l.credits, l.filled_us, v_read_us)
        >= g.key_burst * g.key_interval_us);
  GET DIAGNOSTICS removed = ROW_COUNT;
  UPDATE workhorse.lane AS l SET revision = g.key_revision, filled_us = greatest(l.filled_us, v_read_us),
    credits = workhorse.lane_credits(p_queue, g, l.revision, l.credits, l.filled_us, v_read_us)
  WHERE l.queue_name = p_queue AND l.concurrency_key = ANY (v_keys) AND l.revision <> g.key_revision;
END $$;

-- One step for up to ten queues, those that nobody claims from just now. Returns how many rows it removed.
CREATE OR REPLACE FUNCTION workhorse.sweep_admission(p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_queue text;
  v_removed integer := 0;
BEGIN
  SELECT queue_name INTO v_queue FROM workhorse.sweep_cursor FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  FOR i IN 1 .. 10 LOOP
    SELECT least(
      (SELECT min(a.queue_name) FROM workhorse.queue_admission AS a WHERE a.queue_name > v_queue),
      (SELECT min(c.queue_name) FROM workhorse.rate_limit_change AS c WHERE c.queue_name > v_queue)) INTO v_queue;
    EXIT WHEN v_queue IS NULL;
    IF pg_try_advisory_xact_lock(workhorse.admission_lock_id(v_queue)) THEN
      v_removed := v_removed + workhorse.sweep_queue(v_queue, p_limit);
    END IF;
  END LOOP;
  UPDATE workhorse.sweep_cursor SET queue_name = coalesce(v_queue, '');
  RETURN v_removed;
END $$;

CREATE OR REPLACE FUNCTION workhorse.sweep_queue(p_queue text, p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_now timestamptz := workhorse.clock();
  g workhorse.gate_reading;
  v_step record;
  v_revision bigint;
  v_count integer;
  v_removed integer := 0;
BEGIN
  g := workhorse.gate(p_queue, v_now);
  SELECT * INTO v_step FROM workhorse.sweep_lanes(p_queue, g, v_now, g.sweep_after, p_limit);
  v_removed := v_step.removed;
  -- With this step a pass over the keys may be complete: since v_revision each of them was looked at.
  v_revision := CASE
    WHEN v_step.next_after <> '' THEN NULL
    WHEN g.sweep_after = '' THEN g.revision
    ELSE (SELECT a.sweep_revision FROM workhorse.queue_admission AS a WHERE a.queue_name = p_queue)
  END;
  UPDATE workhorse.queue_admission SET sweep_after = v_step.next_after,
    sweep_revision = CASE WHEN v_step.next_after = '' OR g.sweep_after = '' THEN g.revision ELSE sweep_revision END
  WHERE queue_name = p_queue AND (sweep_after <> v_step.next_after
    OR v_step.next_after = '' AND sweep_revision IS DISTINCT FROM g.revision);

  -- Changes that no bucket has to be carried over any more. A key's bucket may name an older revision than v_revision, but
  -- then the limit per key was the same in both.
  DELETE FROM workhorse.rate_limit_change AS c
  WHERE c.queue_name = p_queue AND v_revision IS NOT NULL AND c.revision < least(v_revision, g.bucket_revision);
  GET DIAGNOSTICS v_count = ROW_COUNT;
  v_removed := v_removed + v_count;

  -- A deleted limit is forgotten once its buckets are full again.
  IF g.revision IS NOT NULL AND NOT g.rate_enforced
    AND NOT EXISTS (SELECT FROM workhorse.lane AS l WHERE l.queue_name = p_queue)
    AND workhorse.refill(workhorse.fold_bucket('queue', p_queue, g.bucket_revision, g.credits, g.filled_us),
      greatest(g.filled_us, g.changed_us), workhorse.to_us(v_now), g.rate_limit, g.interval_us, g.burst)
      >= g.burst * g.interval_us
    -- A sync under way may be making the limit anew.
    AND pg_try_advisory_xact_lock(hashtextextended('workhorse:rate-limit-policies', 0))
    AND NOT EXISTS (SELECT FROM workhorse.rate_limit_policy AS p WHERE p.queue_name = p_queue) THEN
    DELETE FROM workhorse.rate_limit_change WHERE queue_name = p_queue;
    -- Revisions are counted from 1 again: none of before may be taken for one of them.
    UPDATE workhorse.queue_admission SET revision = NULL, credits = NULL, filled_us = NULL, judged_revision = NULL,
      sweep_revision = NULL
    WHERE queue_name = p_queue;
    DELETE FROM workhorse.queue_admission AS a WHERE a.queue_name = p_queue AND NOT g.governed;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    v_removed := v_removed + v_count;
  END IF;
  RETURN v_removed;
END $$;
