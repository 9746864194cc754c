-- One row per queue that has unfinished jobs or a policy, by queue_name, at most 1,000 queues.
--   scheduled, ready, active: jobs in that state, each counted up to 10,000. expired_leases: active jobs whose lease is over
--   and that no worker has recovered yet, up to 1,000. completed, failed, cancelled: in the last hour, among the latest
--   10,000 finished jobs of all queues. capped: one of these ended at its bound.
--   oldest_ready_age_ms: how long the oldest ready job has been due; null when none is.
--   reason: what the ready jobs wait for (tokens, key_tokens, slots, key_slots, backed_off), null when one could start now or
--   none is ready; next_eligible_at goes with it.
CREATE OR REPLACE FUNCTION workhorse.queue_health_v1()
RETURNS TABLE (
  queue_name text, scheduled bigint, ready bigint, active bigint, completed bigint, failed bigint, cancelled bigint,
  expired_leases integer, oldest_ready_age_ms bigint, reason text, next_eligible_at timestamptz, capped boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
  c_count CONSTANT integer := 10000;
  v_now timestamptz := workhorse.clock();
  v_finished jsonb;
  v_finished_capped boolean;
  g workhorse.gate_reading;
  v_pressure record;
BEGIN
  SELECT jsonb_object_agg(f.name, f.counts), coalesce(sum(f.total), 0) >= c_count INTO v_finished, v_finished_capped
  FROM (
    SELECT latest.queue_name AS name, count(*) AS total,
      jsonb_build_object('completed', count(*) FILTER (WHERE state = 'completed'),
        'failed', count(*) FILTER (WHERE state = 'failed'), 'cancelled', count(*) FILTER (WHERE state = 'cancelled')) AS counts
    FROM (SELECT j.queue_name, j.state FROM workhorse.job AS j
      WHERE j.state IN ('completed', 'failed', 'cancelled') AND j.finished_at > v_now - interval '1 hour'
      ORDER BY j.finished_at DESC LIMIT c_count) AS latest
    GROUP BY latest.queue_name) AS f;

  queue_name := '';
  FOR i IN 1 .. 1000 LOOP
    SELECT min(name) INTO queue_name FROM (
      (SELECT j.queue_name AS name FROM workhorse.job AS j WHERE j.state = 'ready' AND j.id > 0 AND j.queue_name > queue_health_v1.queue_name
       ORDER BY j.queue_name LIMIT 1)
      UNION ALL
      (SELECT j.queue_name FROM workhorse.job AS j WHERE j.state = 'scheduled' AND j.queue_name > queue_health_v1.queue_name
       ORDER BY j.queue_name LIMIT 1)
      UNION ALL
      (SELECT j.queue_name FROM workhorse.job AS j WHERE j.state = 'active' AND j.queue_name > queue_health_v1.queue_name
       ORDER BY j.queue_name LIMIT 1)
      UNION ALL
      (SELECT p.queue_name FROM workhorse.rate_limit_policy AS p WHERE p.queue_name > queue_health_v1.queue_name
       ORDER BY p.queue_name LIMIT 1)
      UNION ALL
      (SELECT p.queue_name FROM workhorse.concurrency_policy AS p WHERE p.queue_name > queue_health_v1.queue_name
       ORDER BY p.queue_name LIMIT 1)) AS names;
    EXIT WHEN queue_name IS NULL;

    scheduled := (SELECT count(*) FROM (SELECT FROM workhorse.job AS j
      WHERE j.queue_name = queue_health_v1.queue_name AND j.state = 'scheduled' LIMIT c_count) AS c);
    ready := (SELECT count(*) FROM (SELECT FROM workhorse.job AS j
      WHERE j.queue_name = queue_health_v1.queue_name AND j.state = 'ready' AND j.id > 0 LIMIT c_count) AS c);
    active := (SELECT count(*) FROM (SELECT FROM workhorse.job AS j
      WHERE j.queue_name = queue_health_v1.queue_name AND j.state = 'active' LIMIT c_count) AS c);
    expired_leases := (SELECT count(*) FROM (SELECT FROM workhorse.job AS j
      WHERE j.queue_name = queue_health_v1.queue_name AND j.state = 'active' AND j.lease_expires_at <= v_now
      LIMIT 1000) AS c);
    completed := coalesce((v_finished -> queue_name ->> 'completed')::bigint, 0);
    failed := coalesce((v_finished -> queue_name ->> 'failed')::bigint, 0);
    cancelled := coalesce((v_finished -> queue_name ->> 'cancelled')::bigint, 0);
    oldest_ready_age_ms := workhorse.oldest_ready_age_ms(queue_name, v_now);

    reason := NULL;
    next_eligible_at := NULL;
    IF ready > 0 THEN
      g := workhorse.gate(queue_name, v_now);
      v_pressure := workhorse.queue_pressure(queue_name, g, v_now);
      reason := v_pressure.next_reason;
      next_eligible_at := workhorse.from_us(v_pressure.next_us);
    END IF;
    capped := v_finished_capped OR scheduled >= c_count OR ready >= c_count OR active >= c_count OR expired_leases >= 1000;
    RETURN NEXT;
  END LOOP;
END $$;

-- The first job of each priority, jumping from one to the next (at most 100): the oldest of them by its due time.
CREATE OR REPLACE FUNCTION workhorse.oldest_ready_age_ms(p_queue text, p_now timestamptz) RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_place bigint := 0;
  v_since timestamptz;
  v_oldest timestamptz;
BEGIN
  FOR i IN 1 .. 100 LOOP
    SELECT j.place, coalesce(j.run_at, j.created_at) INTO v_place, v_since FROM workhorse.job AS j
    WHERE j.queue_name = p_queue AND j.state = 'ready' AND j.id > 0 AND j.place >= v_place ORDER BY j.place LIMIT 1;
    EXIT WHEN NOT FOUND;
    v_oldest := least(v_oldest, v_since);
    EXIT WHEN v_place >> 47 >= 65535;
    v_place := ((v_place >> 47) + 1) << 47;
  END LOOP;
  RETURN CASE WHEN v_oldest IS NOT NULL THEN greatest(0, floor(extract(epoch FROM p_now - v_oldest) * 1000)) END;
END $$;
