-- The claim of a queue with limits per key. Every key with ready jobs has a lane; open lanes are read in the order of their
-- heads and waiting ones only once they are due, so keys that wait cost nothing, however long their backlogs.
-- The caller, claim_v1, holds the admission lock.
--   p_room: starts that the queue as a whole allows; p_credits: its bucket's credits at p_now; p_active: its active jobs.
CREATE OR REPLACE FUNCTION workhorse.claim_lanes(
  p_queue text, p_worker_id text, p_max_jobs integer, p_lease_ms integer,
  g workhorse.gate_reading, p_now timestamptz, p_room integer, p_credits bigint, p_active integer)
RETURNS SETOF workhorse.claimed
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_now_us CONSTANT bigint := workhorse.to_us(p_now);
  -- A change of the limits read every bucket: no reading goes back behind it when the clock does.
  v_read_us CONSTANT bigint := greatest(v_now_us, g.changed_us);
  c_top CONSTANT bigint := 9223372036854775807;
  c_due CONSTANT integer := 200;
  c_locked CONSTANT integer := 1000;
  v_started integer := 0;
  -- Following the jobs.
  v_seen pg_snapshot;
  v_written_by xid8;
  v_events integer := 0;
  v_event_keys text[];
  v_rebuild_after text := g.rebuild_after;
  v_low bigint;
  v_head_floor bigint := g.head_floor;
  -- Not above the clock, which may have stepped back: what is to open from now on must lie after it.
  v_opens_floor bigint := least(g.opens_floor, v_now_us);
  v_identifier bigint := g.system_identifier;
  v_chunks integer := 0;
  v_sweep_after text := g.sweep_after;
  -- One round: the lanes read, by their number in it.
  r record;
  v_window integer := p_max_jobs + 1;
  v_quick boolean;
  v_locked boolean;
  v_open_read integer;
  v_due_read integer;
  v_lanes_read integer := 0;
  v_bound bigint;
  v_room integer;
  v_picked integer;
  v_ids bigint[];
  v_lane integer[];
  v_count integer;
  k_key text[];
  k_head bigint[];
  k_next bigint[];
  k_credits bigint[];
  k_now_us bigint[];
  k_active integer[];
  k_closed bigint[];
  k_started integer[];
  k_waiting boolean[];
  -- Jobs that were picked but are locked by others, say to be cancelled.
  l_id bigint[] := '{}';
  l_key text[] := '{}';
  l_place bigint[] := '{}';
  -- What is written of them.
  w_key text[];
  w_credits bigint[];
  w_head bigint[];
  w_opens bigint[];
  w_waits text[];
  v_credits bigint;
  v_opens bigint;
  v_waits text;
  v_us bigint;
  v_some_open boolean;
  v_complete boolean;
  v_unfinished boolean := false;
  v_wrote boolean := false;
BEGIN
  -- 1. Follow the jobs: which keys did anything happen to since the last claim looked? The snapshot is that of the very
  -- statement that reads the events, so nothing falls between two claims, however late its transaction commits.
  IF g.seen IS NULL OR NOT g.own_row AND g.system_identifier IS DISTINCT FROM workhorse.system_identifier() THEN
    v_seen := pg_current_snapshot();
    v_identifier := workhorse.system_identifier();
    v_rebuild_after := '';
  ELSE
    SELECT pg_current_snapshot(), count(*), array_agg(DISTINCT e.concurrency_key) INTO v_seen, v_events, v_event_keys
    FROM (
      (SELECT j.concurrency_key FROM workhorse.job AS j
       WHERE j.queue_name = p_queue AND j.state <> 'active' AND j.concurrency_key IS NOT NULL
         AND j.event_xid >= pg_snapshot_xmax(g.seen) AND j.event_xid <= workhorse.newest_xid()
       ORDER BY j.event_xid LIMIT 64)
      UNION ALL
      (SELECT late.concurrency_key FROM (SELECT pg_snapshot_xip(g.seen) UNION SELECT g.written_by) AS x (xid)
       CROSS JOIN LATERAL (
         SELECT j.concurrency_key FROM workhorse.job AS j
         WHERE j.queue_name = p_queue AND j.state <> 'active' AND j.concurrency_key IS NOT NULL AND j.event_xid = x.xid
         ORDER BY j.concurrency_key LIMIT 64) AS late
       LIMIT 64)) AS e;
    IF v_events >= 64 THEN
      v_event_keys := workhorse.event_keys(p_queue, g.seen, g.written_by, 1000);
      IF v_event_keys IS NULL AND v_rebuild_after > '' THEN
        -- The rebuild under way goes first, or its last keys would never have their turn: these events wait for its end.
        v_seen := g.seen;
        v_written_by := g.written_by;
      ELSIF v_event_keys IS NULL THEN
        -- More than that: looking at each key once is cheaper than at each event.
        v_rebuild_after := '';
      END IF;
    END IF;
    IF g.judged_revision IS DISTINCT FROM g.key_revision
      OR g.judged_max_active_per_key IS DISTINCT FROM g.max_active_per_key THEN
      v_rebuild_after := '';
    END IF;
    IF v_event_keys IS NOT NULL THEN
      v_low := workhorse.note_events(p_queue, v_event_keys);
      v_head_floor := least(v_head_floor, v_low);
    END IF;
  END IF;
  IF v_rebuild_after = '' THEN
    v_head_floor := 0;
    v_opens_floor := 0;
  END IF;
  IF v_rebuild_after IS NOT NULL THEN
    SELECT c.next_after, c.lowest_head INTO v_rebuild_after, v_low
    FROM workhorse.rebuild_chunk(p_queue, g, p_now, v_rebuild_after) AS c;
    v_head_floor := least(v_head_floor, v_low);
    v_chunks := 1;
    v_wrote := true;
  END IF;

  LOOP
    -- 2. Read lanes and the first jobs of each; pick in the order of places.
    v_room := p_room - v_started;
    v_picked := 0;
    v_some_open := false;
    v_open_read := 0;
    v_due_read := 0;
    v_bound := c_top;
    v_ids := '{}';
    v_lane := '{}';
    k_key := '{}';
    k_started := '{}';
    -- Most claims of one job: the first open lane has its head where it is thought to be, nothing comes before it and it may
    -- start. That takes no more than this; all else takes the long way.
    v_quick := false;
    IF p_max_jobs = 1 AND v_room = 1 AND v_lanes_read = 0 AND NOT g.keys_backed_off THEN
      SELECT first.concurrency_key, first.head, first.filled_us, j.id,
        (SELECT n.place FROM workhorse.job AS n
         WHERE n.queue_name = p_queue AND n.concurrency_key = first.concurrency_key AND n.state = 'ready'
           AND n.place > first.head
         ORDER BY n.place LIMIT 1) AS next,
        CASE WHEN g.key_enforced THEN
          CASE WHEN first.revision = g.key_revision
            THEN workhorse.refill(first.credits, first.filled_us, v_read_us, g.key_limit, g.key_interval_us, g.key_burst)
            ELSE workhorse.lane_credits(p_queue, g, first.revision, first.credits, first.filled_us, v_read_us) END
        END AS credits_now,
        CASE WHEN g.max_active_per_key IS NOT NULL THEN
          (SELECT count(*)::integer FROM workhorse.job AS a WHERE a.queue_name = p_queue
             AND a.concurrency_key = first.concurrency_key AND a.state = 'active' AND a.lease_expires_at > p_now)
            + workhorse.unsettled_of(g.unsettled, first.concurrency_key)
        END AS active
      INTO r
      FROM (
        SELECT l.* FROM workhorse.lane AS l
        WHERE l.queue_name = p_queue AND l.head IS NOT NULL AND l.opens_us IS NULL AND l.head >= v_head_floor
        ORDER BY l.head LIMIT 1) AS first
      CROSS JOIN LATERAL (
        SELECT h.id FROM workhorse.job AS h
        WHERE h.queue_name = p_queue AND h.concurrency_key = first.concurrency_key AND h.state = 'ready'
          AND h.place = first.head) AS j
      WHERE NOT EXISTS (
          SELECT FROM workhorse.lane AS d WHERE d.queue_name = p_queue AND d.head IS NOT NULL AND d.opens_us IS NOT NULL
            AND d.opens_us > v_opens_floor AND d.opens_us <= v_now_us)
        AND NOT EXISTS (
          SELECT FROM workhorse.job AS k WHERE k.queue_name = p_queue AND k.concurrency_key IS NULL AND k.state = 'ready'
            AND k.place < first.head);
      IF FOUND AND (r.credits_now >= g.key_interval_us) IS NOT FALSE AND (r.active < g.max_active_per_key) IS NOT FALSE THEN
        v_quick := true;
        v_picked := 1;
        v_ids := ARRAY[r.id];
        v_lane := ARRAY[1];
        k_key := ARRAY[r.concurrency_key];
        k_head := ARRAY[r.head];
        k_next := ARRAY[r.next];
        k_credits := ARRAY[r.credits_now];
        k_now_us := ARRAY[greatest(v_read_us, r.filled_us)];
        k_active := ARRAY[r.active];
        k_closed := ARRAY[NULL::bigint];
        k_started := ARRAY[1];
        k_waiting := ARRAY[false];
        -- Of the others it is known that they come later, and no more.
        v_open_read := v_window;
        v_bound := r.head;
      END IF;
    END IF;
    IF NOT v_quick THEN
      FOR r IN
        WITH open AS MATERIALIZED (
          SELECT l.* FROM workhorse.lane AS l
          WHERE l.queue_name = p_queue AND l.head IS NOT NULL AND l.opens_us IS NULL AND l.head >= v_head_floor
          ORDER BY l.head LIMIT v_window
        ), due AS MATERIALIZED (
          SELECT l.* FROM workhorse.lane AS l
          WHERE l.queue_name = p_queue AND l.head IS NOT NULL AND l.opens_us IS NOT NULL
            AND l.opens_us > v_opens_floor AND l.opens_us <= v_now_us
          ORDER BY l.opens_us LIMIT c_due
        ), lanes AS (
          SELECT row_number() OVER () AS n, near.*, room.*
          FROM (SELECT * FROM open UNION ALL SELECT * FROM due) AS near
          CROSS JOIN LATERAL (
            SELECT CASE WHEN g.key_enforced THEN
                CASE WHEN near.revision = g.key_revision
                  THEN workhorse.refill(near.credits, near.filled_us, v_read_us, g.key_limit, g.key_interval_us, g.key_burst)
                  ELSE workhorse.lane_credits(p_queue, g, near.revision, near.credits, near.filled_us, v_read_us) END
              END AS credits_now,
              greatest(v_read_us, near.filled_us) AS now_us,
              CASE WHEN g.max_active_per_key IS NOT NULL THEN
                (SELECT count(*)::integer FROM workhorse.job AS j WHERE j.queue_name = p_queue
                   AND j.concurrency_key = near.concurrency_key AND j.state = 'active' AND j.lease_expires_at > p_now)
                  + workhorse.unsettled_of(g.unsettled, near.concurrency_key)
              END AS active,
              CASE WHEN g.keys_backed_off THEN
                (SELECT workhorse.to_us(o.until) FROM workhorse.back_off AS o
                 WHERE o.queue_name = p_queue AND o.concurrency_key = near.concurrency_key AND o.until > p_now)
              END AS closed_us) AS room
        )
        SELECT lanes.n, lanes.concurrency_key, lanes.head, lanes.opens_us, lanes.credits_now, lanes.now_us, lanes.active,
          lanes.closed_us, may.starts, j.id, j.place
        FROM lanes
        CROSS JOIN LATERAL (
          SELECT CASE WHEN lanes.closed_us IS NOT NULL THEN 0 ELSE
            greatest(0, least(p_max_jobs, lanes.credits_now / g.key_interval_us, g.max_active_per_key - lanes.active))
          END::integer AS starts) AS may
        LEFT JOIN LATERAL (
          SELECT j.id, j.place FROM workhorse.job AS j
          WHERE j.queue_name = p_queue AND j.concurrency_key = lanes.concurrency_key AND j.state = 'ready'
            AND j.place >= lanes.head AND j.id <> ALL (l_id)
          ORDER BY j.place LIMIT least(may.starts, v_room) + 1) AS j ON true
        UNION ALL
        -- The keyless jobs wait for nothing of their own.
        (SELECT 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, p_max_jobs, j.id, j.place FROM workhorse.job AS j
         WHERE j.queue_name = p_queue AND j.concurrency_key IS NULL AND j.state = 'ready' AND j.id <> ALL (l_id)
         ORDER BY j.place LIMIT v_room + 1)
        UNION ALL
        -- First of all rows: how much was read. No unread open lane has a lower head than the last one that was read.
        SELECT -1, NULL, (SELECT max(o.head) FROM open AS o), NULL, NULL, NULL, (SELECT count(*) FROM open)::integer, NULL,
          (SELECT count(*) FROM due)::integer, NULL, (-1)::bigint
        ORDER BY 11
      LOOP
        IF r.n < 0 THEN
          v_open_read := r.active;
          v_due_read := r.starts;
          IF v_open_read >= v_window THEN
            v_bound := r.head;
          END IF;
          CONTINUE;
        END IF;
        IF r.n > 0 AND k_started[r.n] IS NULL THEN
          k_key[r.n] := r.concurrency_key;
          k_head[r.n] := r.head;
          k_next[r.n] := NULL;
          k_credits[r.n] := r.credits_now;
          k_now_us[r.n] := r.now_us;
          k_active[r.n] := r.active;
          k_closed[r.n] := r.closed_us;
          k_started[r.n] := 0;
          k_waiting[r.n] := r.opens_us IS NOT NULL;
        END IF;
        CONTINUE WHEN r.id IS NULL;
        IF r.place <= v_bound AND (r.n = 0 OR k_next[r.n] IS NULL AND k_started[r.n] < r.starts) THEN
          IF v_picked < v_room THEN
            v_picked := v_picked + 1;
            v_ids[v_picked] := r.id;
            v_lane[v_picked] := r.n;
            IF r.n > 0 THEN
              k_started[r.n] := k_started[r.n] + 1;
            END IF;
            CONTINUE;
          END IF;
          v_some_open := true;
        END IF;
        IF r.n > 0 AND k_next[r.n] IS NULL THEN
          k_next[r.n] := r.place;
        END IF;
      END LOOP;
    END IF;

    -- 3. Start the picked jobs.
    v_locked := false;
    IF v_picked > 0 THEN
      RETURN QUERY
      WITH started AS (
        UPDATE workhorse.job AS j SET state = 'active', attempt = j.attempt + 1, fence_token = j.fence_token + 1,
          worker_id = p_worker_id, started_at = p_now, lease_expires_at = p_now + p_lease_ms * interval '1 millisecond'
        WHERE j.id = ANY (ARRAY(
          SELECT s.id FROM workhorse.job AS s WHERE s.id = ANY (v_ids) AND s.state = 'ready'
          FOR NO KEY UPDATE SKIP LOCKED))
        RETURNING j.place, j.id, j.queue_name, j.type, j.payload, j.concurrency_key, j.priority::integer, j.attempt,
          j.max_attempts, j.fence_token, j.created_at, j.started_at, j.lease_expires_at)
      SELECT s.id, s.queue_name, s.type, s.payload, s.concurrency_key, s.priority, s.attempt, s.max_attempts,
        s.fence_token, s.created_at, s.started_at, s.lease_expires_at, NULL::timestamptz, NULL::bigint, NULL::text
      FROM started AS s ORDER BY s.place;
      GET DIAGNOSTICS v_count = ROW_COUNT;
      IF v_count < v_picked THEN
        -- Those that are locked stay at the head of their lanes, and the next round passes over them.
        FOR r IN
          SELECT v_lane[p.n] AS n, p.id, j.place, j.concurrency_key, j.state = 'ready' AS locked
          FROM unnest(v_ids) WITH ORDINALITY AS p (id, n)
          LEFT JOIN workhorse.job AS j ON j.id = p.id
          WHERE j.state IS DISTINCT FROM 'active' OR j.started_at <> p_now OR j.worker_id <> p_worker_id
        LOOP
          IF r.n > 0 THEN
            k_started[r.n] := k_started[r.n] - 1;
            k_next[r.n] := least(k_next[r.n], r.place);
          END IF;
          IF r.locked THEN
            v_locked := true;
            l_id := l_id || r.id;
            l_key := l_key || r.concurrency_key;
            l_place := l_place || r.place;
          END IF;
        END LOOP;
      END IF;
      v_started := v_started + v_count;
    END IF;

    -- 4. Write what changed of the lanes.
    w_key := '{}';
    w_credits := '{}';
    w_head := '{}';
    w_opens := '{}';
    w_waits := '{}';
    v_low := CASE WHEN v_open_read >= v_window THEN v_bound ELSE c_top END;
    FOR i IN 1 .. cardinality(l_id) LOOP
      v_count := array_position(k_key, l_key[i]);
      IF v_count IS NOT NULL THEN
        k_next[v_count] := least(k_next[v_count], l_place[i]);
      END IF;
    END LOOP;
    FOR i IN 1 .. cardinality(k_key) LOOP
      v_credits := k_credits[i] - k_started[i] * g.key_interval_us;
      v_opens := NULL;
      v_waits := NULL;
      IF k_next[i] IS NOT NULL THEN
        IF v_credits < g.key_interval_us THEN
          v_opens := workhorse.token_us(v_credits, k_now_us[i], g.key_limit, g.key_interval_us);
          v_waits := 'tokens';
        END IF;
        IF k_active[i] + k_started[i] >= g.max_active_per_key THEN
          v_us := workhorse.slot_us(p_queue, k_key[i], g, p_now, k_active[i] + k_started[i] - g.max_active_per_key);
          IF v_opens IS NULL OR v_us > v_opens THEN
            v_opens := v_us;
            v_waits := 'slots';
          END IF;
        END IF;
        IF v_opens IS NULL OR k_closed[i] > v_opens THEN
          v_opens := k_closed[i];
          v_waits := CASE WHEN v_opens IS NOT NULL THEN 'back_off' END;
        END IF;
        IF v_opens IS NULL THEN
          v_low := least(v_low, k_next[i]);
        END IF;
      END IF;
      IF k_started[i] > 0 OR k_waiting[i] OR v_opens IS NOT NULL OR k_next[i] IS DISTINCT FROM k_head[i] THEN
        w_key := w_key || k_key[i];
        w_credits := w_credits || CASE WHEN k_started[i] > 0 THEN v_credits END;
        w_head := w_head || k_next[i];
        w_opens := w_opens || v_opens;
        w_waits := w_waits || v_waits;
      END IF;
    END LOOP;
    IF cardinality(w_key) > 0 THEN
      v_wrote := true;
      UPDATE workhorse.lane AS l SET head = w.head, opens_us = w.opens_us, waits_for = w.waits_for,
        revision = CASE WHEN w.credits IS NULL THEN l.revision ELSE g.key_revision END,
        credits = coalesce(w.credits, l.credits),
        filled_us = CASE WHEN w.credits IS NULL THEN l.filled_us ELSE greatest(l.filled_us, v_read_us) END
      FROM unnest(w_key, w_credits, w_head, w_opens, w_waits) AS w (concurrency_key, credits, head, opens_us, waits_for)
      WHERE l.queue_name = p_queue AND l.concurrency_key = w.concurrency_key;
    END IF;
    v_head_floor := v_low;
    IF v_due_read < c_due THEN
      v_opens_floor := greatest(v_opens_floor, v_now_us);
    END IF;

    -- 5. Enough, or nothing left, or one more round?
    v_complete := v_open_read < v_window AND v_due_read < c_due;
    v_lanes_read := v_lanes_read + v_open_read + v_due_read;
    IF v_locked AND v_started < p_room THEN
      IF cardinality(l_id) > c_locked THEN
        v_unfinished := true;
        EXIT;
      END IF;
      CONTINUE WHEN NOT v_quick;
    END IF;
    EXIT WHEN v_started >= p_max_jobs OR v_some_open;
    IF v_complete THEN
      EXIT WHEN v_rebuild_after IS NULL;
      IF v_chunks >= 10 THEN
        v_unfinished := true;
        EXIT;
      END IF;
      SELECT c.next_after, c.lowest_head INTO v_rebuild_after, v_low
      FROM workhorse.rebuild_chunk(p_queue, g, p_now, v_rebuild_after) AS c;
      v_head_floor := least(v_head_floor, v_low);
      v_chunks := v_chunks + 1;
    ELSIF v_lanes_read > 2000 THEN
      v_unfinished := true;
      EXIT;
    END IF;
    v_window := greatest(16, least(4 * v_window, 1001));
  END LOOP;

  -- 6. Charge the queue's bucket and remember how far the lanes followed.
  IF (g.starts + v_started) / 64 > g.starts / 64 THEN
    SELECT s.next_after INTO v_sweep_after FROM workhorse.sweep_lanes(p_queue, g, p_now, v_sweep_after, 256) AS s;
  END IF;
  IF v_started > 0 OR v_events > 0 OR v_wrote OR g.seen IS NULL THEN
    INSERT INTO workhorse.queue_admission AS a
      (queue_name, revision, credits, filled_us, starts, seen, written_by, system_identifier,
       judged_revision, judged_max_active_per_key, rebuild_after, head_floor, opens_floor, sweep_after)
    SELECT p_queue, CASE WHEN g.rate_enforced THEN g.revision END, p_credits - v_started * g.interval_us,
      CASE WHEN g.rate_enforced THEN greatest(v_now_us, g.filled_us, g.changed_us) END,
      v_started, v_seen, coalesce(v_written_by, pg_current_xact_id()), v_identifier,
      g.key_revision, g.max_active_per_key, v_rebuild_after, v_head_floor, v_opens_floor, v_sweep_after
    ON CONFLICT (queue_name) DO UPDATE SET
      revision = CASE WHEN g.rate_enforced THEN excluded.revision ELSE a.revision END,
      credits = CASE WHEN g.rate_enforced THEN excluded.credits ELSE a.credits END,
      filled_us = CASE WHEN g.rate_enforced THEN excluded.filled_us ELSE a.filled_us END,
      starts = a.starts + excluded.starts, seen = excluded.seen, written_by = excluded.written_by,
      system_identifier = excluded.system_identifier, judged_revision = excluded.judged_revision,
      judged_max_active_per_key = excluded.judged_max_active_per_key, rebuild_after = excluded.rebuild_after,
      head_floor = excluded.head_floor, opens_floor = excluded.opens_floor, sweep_after = excluded.sweep_after;
  END IF;

  -- 7. Tell when to come back.
  IF v_started < p_max_jobs THEN
    IF v_unfinished THEN
      -- At once, unless locked jobs stand in front: nothing changes before their transactions end, which nobody may tell.
      RETURN NEXT workhorse.come_back(p_now, v_now_us + CASE WHEN v_started = 0 AND cardinality(l_id) > 0 THEN 100000 ELSE 0 END,
        'key_tokens');
    ELSE
      v_us := v_now_us;
      v_waits := NULL;
      IF NOT v_some_open THEN
        SELECT n.opens_us, n.reason INTO v_us, v_waits FROM workhorse.next_lane(p_queue, g, p_now, v_opens_floor) AS n;
      END IF;
      RETURN NEXT workhorse.answer(p_queue, g, p_now, p_credits - v_started * g.interval_us, p_active + v_started,
        NOT v_some_open, v_us, v_waits);
    END IF;
  END IF;
END $$;
