-- Whether a key may start a job, from its bucket, its active jobs and its back-off. The claim has the token part inlined
-- (claim_lanes.sql); this is for the places that judge one key at a time.
--   tokens, slots: starts that each allows now (null: no such limit), at most p_most.
--   opens_us: when both allow one, if nothing else happens (null: now). waits_for: what it waits for longest.
CREATE OR REPLACE FUNCTION workhorse.judge_key(
  p_queue text, p_key text, g workhorse.gate_reading, p_now timestamptz, p_most integer,
  OUT tokens integer, OUT slots integer, OUT opens_us bigint, OUT waits_for text)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_lane workhorse.lane;
  v_read_us bigint := greatest(workhorse.to_us(p_now), g.changed_us);
  v_credits bigint;
  v_active integer;
  v_until timestamptz;
  v_us bigint;
BEGIN
  IF g.key_enforced THEN
    SELECT * INTO v_lane FROM workhorse.lane WHERE queue_name = p_queue AND concurrency_key = p_key;
    v_credits := workhorse.lane_credits(p_queue, g, v_lane.revision, v_lane.credits, v_lane.filled_us, v_read_us);
    tokens := least(p_most, v_credits / g.key_interval_us);
    IF tokens < 1 THEN
      opens_us := workhorse.token_us(v_credits, greatest(v_read_us, v_lane.filled_us), g.key_limit, g.key_interval_us);
      waits_for := 'tokens';
    END IF;
  END IF;
  IF g.max_active_per_key IS NOT NULL THEN
    v_active := (SELECT count(*) FROM workhorse.job AS j
      WHERE j.queue_name = p_queue AND j.concurrency_key = p_key AND j.state = 'active' AND j.lease_expires_at > p_now)
      + workhorse.unsettled_of(g.unsettled, p_key);
    slots := least(p_most, greatest(0, g.max_active_per_key - v_active));
    IF slots < 1 THEN
      v_us := workhorse.slot_us(p_queue, p_key, g, p_now, v_active - g.max_active_per_key);
      IF opens_us IS NULL OR v_us > opens_us THEN
        opens_us := v_us;
        waits_for := 'slots';
      END IF;
    END IF;
  END IF;
  IF g.keys_backed_off THEN
    SELECT until INTO v_until FROM workhorse.back_off
    WHERE queue_name = p_queue AND concurrency_key = p_key AND until > p_now;
    IF FOUND THEN
      tokens := 0;
      IF opens_us IS NULL OR workhorse.to_us(v_until) > opens_us THEN
        opens_us := workhorse.to_us(v_until);
        waits_for := 'back_off';
      END IF;
    END IF;
  END IF;
END $$;

-- The credits of a key's bucket at p_now_us: of its own row, or of a bucket that was never drawn from (p_revision null).
CREATE OR REPLACE FUNCTION workhorse.lane_credits(
  p_queue text, g workhorse.gate_reading, p_revision bigint, p_credits bigint, p_filled_us bigint, p_now_us bigint)
RETURNS bigint
LANGUAGE sql VOLATILE
AS $$
  SELECT CASE
    WHEN p_revision IS NULL THEN workhorse.refill(g.key_unspent_credits, g.changed_us, p_now_us,
      g.key_limit, g.key_interval_us, g.key_burst)
    WHEN p_revision = g.key_revision THEN workhorse.refill(p_credits, p_filled_us, p_now_us,
      g.key_limit, g.key_interval_us, g.key_burst)
    ELSE workhorse.refill(workhorse.fold_bucket('key', p_queue, p_revision, p_credits, p_filled_us),
      greatest(p_filled_us, g.changed_us), p_now_us, g.key_limit, g.key_interval_us, g.key_burst)
  END
$$;

-- When a slot is free at the latest: the expiry of the lease that brings the active jobs below the cap. p_over: how many
-- active jobs there are above the cap (0: as many as allowed). p_key null: the whole queue. Null: nothing is active. While
-- it is not settled whether a lease has expired, it is worth asking again soon.
CREATE OR REPLACE FUNCTION workhorse.slot_us(
  p_queue text, p_key text, g workhorse.gate_reading, p_now timestamptz, p_over integer)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  c_soon_us CONSTANT bigint := 100000;
  v_soon_us bigint;
BEGIN
  IF p_key IS NULL THEN
    IF g.unsettled IS NOT NULL THEN
      v_soon_us := workhorse.to_us(p_now) + c_soon_us;
    END IF;
    RETURN least(v_soon_us, (SELECT workhorse.to_us(j.lease_expires_at) FROM workhorse.job AS j
      WHERE j.queue_name = p_queue AND j.state = 'active' AND j.lease_expires_at > p_now
      ORDER BY j.lease_expires_at OFFSET greatest(p_over, 0) LIMIT 1));
  END IF;
  IF p_key = ANY (g.unsettled) THEN
    v_soon_us := workhorse.to_us(p_now) + c_soon_us;
  END IF;
  RETURN least(v_soon_us, (SELECT workhorse.to_us(j.lease_expires_at) FROM workhorse.job AS j
    WHERE j.queue_name = p_queue AND j.concurrency_key = p_key AND j.state = 'active' AND j.lease_expires_at > p_now
    ORDER BY j.lease_expires_at OFFSET greatest(p_over, 0) LIMIT 1));
END $$;
