-- What the claim of a queue with limits per key needs now and then; claim_lanes.sql has the whole. All of these run under
-- the queue's admission lock.

-- Which cluster this is: transaction ids mean nothing in another one.
CREATE OR REPLACE FUNCTION workhorse.system_identifier() RETURNS bigint
LANGUAGE sql STABLE
AS $$ SELECT s.system_identifier FROM pg_catalog.pg_control_system() AS s $$;

-- Whoever empties the lanes by hand loses the keys' buckets, but no job: they are built anew.
CREATE OR REPLACE FUNCTION workhorse.lanes_truncated() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  UPDATE workhorse.queue_admission SET seen = NULL;
  RETURN NULL;
END $$;
DO $$
BEGIN
  -- Not made anew at each upgrade: that would wait for every claim under way, and hold up those that follow.
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger
    WHERE tgrelid = 'workhorse.lane'::pg_catalog.regclass AND tgname = 'lanes_truncated') THEN
    CREATE TRIGGER lanes_truncated AFTER TRUNCATE ON workhorse.lane
      FOR EACH STATEMENT EXECUTE FUNCTION workhorse.lanes_truncated();
  END IF;
END $$;

-- No event that can be seen has a higher transaction id. Jobs that were copied from another cluster may have one: they say
-- nothing until this cluster has counted as far.
CREATE OR REPLACE FUNCTION workhorse.newest_xid() RETURNS xid8
LANGUAGE sql STABLE
AS $$ SELECT greatest(pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()), pg_catalog.pg_current_xact_id_if_assigned()) $$;

-- The distinct keys of the events that p_seen did not show, or null if there are more than p_most (transaction, key) pairs.
-- Jumps from pair to pair, so a transaction that enqueued a million jobs of one key costs one step.
CREATE OR REPLACE FUNCTION workhorse.event_keys(p_queue text, p_seen pg_snapshot, p_written_by xid8, p_most integer)
RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_xid xid8;
  v_key text;
  v_keys text[] := '{}';
  v_steps integer := 0;
  v_unseen xid8;
BEGIN
  SELECT j.event_xid, j.concurrency_key INTO v_xid, v_key FROM workhorse.job AS j
  WHERE j.queue_name = p_queue AND j.state <> 'active' AND j.concurrency_key IS NOT NULL
    AND j.event_xid >= pg_snapshot_xmax(p_seen) AND j.event_xid <= workhorse.newest_xid()
  ORDER BY j.event_xid, j.concurrency_key LIMIT 1;
  WHILE v_key IS NOT NULL LOOP
    v_steps := v_steps + 1;
    IF v_steps > p_most THEN
      RETURN NULL;
    END IF;
    v_keys := v_keys || v_key;
    SELECT j.event_xid, j.concurrency_key INTO v_xid, v_key FROM workhorse.job AS j
    WHERE j.queue_name = p_queue AND j.state <> 'active' AND j.concurrency_key IS NOT NULL
      AND (j.event_xid, j.concurrency_key) > (v_xid, v_key) AND j.event_xid <= workhorse.newest_xid()
    ORDER BY j.event_xid, j.concurrency_key LIMIT 1;
  END LOOP;
  FOREACH v_unseen IN ARRAY ARRAY(SELECT pg_snapshot_xip(p_seen)) || p_written_by LOOP
    v_key := '';
    LOOP
      SELECT j.concurrency_key INTO v_key FROM workhorse.job AS j
      WHERE j.queue_name = p_queue AND j.state <> 'active' AND j.concurrency_key IS NOT NULL
        AND j.event_xid = v_unseen AND j.concurrency_key > v_key
      ORDER BY j.concurrency_key LIMIT 1;
      EXIT WHEN NOT FOUND;
      v_steps := v_steps + 1;
      IF v_steps > p_most THEN
        RETURN NULL;
      END IF;
      v_keys := v_keys || v_key;
    END LOOP;
  END LOOP;
  RETURN ARRAY(SELECT DISTINCT k FROM unnest(v_keys) AS k);
END $$;

-- Brings the lanes of these keys up to date: jobs came, came back, or ended. A lane that waits for tokens or a back-off goes
-- on waiting as long as it kept a ready job; one that waited for a slot is looked at again, and so is one that had none: the
-- limits may have changed since it was judged. Returns the lowest head of the lanes that are open by this.
CREATE OR REPLACE FUNCTION workhorse.note_events(p_queue text, p_keys text[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_lowest bigint;
BEGIN
  WITH found AS (
      SELECT k.key, first.place, old.waits_for <> 'slots'
          AND pg_visible_in_snapshot(first.event_xid, a.seen) AND first.event_xid <> a.written_by AS goes_on_waiting
      FROM unnest(p_keys) AS k (key)
      CROSS JOIN LATERAL (
        SELECT j.place, j.event_xid FROM workhorse.job AS j
        WHERE j.queue_name = p_queue AND j.concurrency_key = k.key AND j.state = 'ready'
        ORDER BY j.place LIMIT 1) AS first
      JOIN workhorse.queue_admission AS a ON a.queue_name = p_queue
      LEFT JOIN workhorse.lane AS old ON old.queue_name = p_queue AND old.concurrency_key = k.key
      WHERE old.head IS NULL OR first.place < old.head OR old.opens_us IS NOT NULL
    ), written AS (
      INSERT INTO workhorse.lane AS l (queue_name, concurrency_key, head)
      SELECT p_queue, f.key, f.place FROM found AS f WHERE f.goes_on_waiting IS NOT TRUE
      ON CONFLICT (queue_name, concurrency_key) DO UPDATE SET head = excluded.head, opens_us = NULL, waits_for = NULL
      RETURNING l.head)
  SELECT min(head) INTO v_lowest FROM written;
  RETURN v_lowest;
END $$;

-- Looks at the next 1,000 keys with ready jobs after p_after, in the order of keys, and judges each afresh.
-- next_after: where to go on (null: that was all). lowest_head: of the lanes that are open by this.
CREATE OR REPLACE FUNCTION workhorse.rebuild_chunk(
  p_queue text, g workhorse.gate_reading, p_now timestamptz, p_after text,
  OUT next_after text, OUT lowest_head bigint)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_keys text[];
BEGIN
  WITH RECURSIVE next (key, n) AS (
    (SELECT j.concurrency_key, 1 FROM workhorse.job AS j
     WHERE j.queue_name = p_queue AND j.state = 'ready' AND j.concurrency_key > p_after
     ORDER BY j.concurrency_key LIMIT 1)
    UNION ALL
    SELECT (SELECT j.concurrency_key FROM workhorse.job AS j
      WHERE j.queue_name = p_queue AND j.state = 'ready' AND j.concurrency_key > next.key
      ORDER BY j.concurrency_key LIMIT 1), next.n + 1
    FROM next WHERE next.key IS NOT NULL AND next.n < 1000)
  SELECT array_agg(key ORDER BY key) FILTER (WHERE key IS NOT NULL) INTO v_keys FROM next;

  WITH written AS (
    INSERT INTO workhorse.lane AS l (queue_name, concurrency_key, head, opens_us, waits_for)
    SELECT p_queue, k.key, first.place, judged.opens_us, judged.waits_for
    FROM unnest(v_keys) AS k (key)
    CROSS JOIN LATERAL (
      SELECT j.place FROM workhorse.job AS j
      WHERE j.queue_name = p_queue AND j.concurrency_key = k.key AND j.state = 'ready'
      ORDER BY j.place LIMIT 1) AS first
    CROSS JOIN LATERAL workhorse.judge_key(p_queue, k.key, g, p_now, 1) AS judged
    ON CONFLICT (queue_name, concurrency_key) DO UPDATE SET
      head = excluded.head, opens_us = excluded.opens_us, waits_for = excluded.waits_for
    RETURNING l.head, l.opens_us)
  SELECT min(head) INTO lowest_head FROM written WHERE opens_us IS NULL;
  IF cardinality(v_keys) = 1000 THEN
    next_after := v_keys[1000];
  END IF;
END $$;

-- When the next waiting lane opens, for what reason it waits. A lane that turns out to have no job, or to wait longer, is
-- put right on the way.
CREATE OR REPLACE FUNCTION workhorse.next_lane(
  p_queue text, g workhorse.gate_reading, p_now timestamptz, p_opens_floor bigint,
  OUT opens_us bigint, OUT reason text)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_lane workhorse.lane;
  v_judged record;
BEGIN
  FOR i IN 1 .. 100 LOOP
    SELECT * INTO v_lane FROM workhorse.lane AS l
    WHERE l.queue_name = p_queue AND l.head IS NOT NULL AND l.opens_us IS NOT NULL AND l.opens_us > p_opens_floor
    ORDER BY l.opens_us LIMIT 1;
    opens_us := v_lane.opens_us;
    reason := CASE v_lane.waits_for WHEN 'tokens' THEN 'key_tokens' WHEN 'slots' THEN 'key_slots'
      WHEN 'back_off' THEN 'backed_off' END;
    EXIT WHEN v_lane.queue_name IS NULL;
    IF NOT EXISTS (SELECT FROM workhorse.job AS j
      WHERE j.queue_name = p_queue AND j.concurrency_key = v_lane.concurrency_key AND j.state = 'ready'
        AND j.place >= v_lane.head) THEN
      UPDATE workhorse.lane AS l SET head = NULL, opens_us = NULL, waits_for = NULL
      WHERE l.queue_name = p_queue AND l.concurrency_key = v_lane.concurrency_key;
      CONTINUE;
    END IF;
    EXIT WHEN v_lane.waits_for = 'tokens';
    v_judged := workhorse.judge_key(p_queue, v_lane.concurrency_key, g, p_now, 1);
    -- One that opened without an event is due at the next claim, which is worth asking for at once.
    EXIT WHEN v_judged.opens_us IS NOT DISTINCT FROM v_lane.opens_us;
    UPDATE workhorse.lane AS l SET waits_for = v_judged.waits_for,
      opens_us = coalesce(v_judged.opens_us, p_opens_floor + 1)
    WHERE l.queue_name = p_queue AND l.concurrency_key = v_lane.concurrency_key;
    IF v_judged.opens_us IS NULL THEN
      opens_us := workhorse.to_us(p_now);
      EXIT;
    END IF;
  END LOOP;
END $$;
