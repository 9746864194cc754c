-- What stands between a queue's ready jobs and a start, read in one statement. One row, always.
-- In PL/pgSQL, like all that runs in each claim, because a function in SQL that cannot be inlined is planned at each call.
CREATE OR REPLACE FUNCTION workhorse.gate(p_queue text, p_now timestamptz) RETURNS workhorse.gate_reading
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  g workhorse.gate_reading;
BEGIN
  SELECT
    coalesce(r.enforced, false) OR c.queue_name IS NOT NULL OR k.backed_off,
    coalesce(r.enforced, false), r.revision, r.changed_us, r.rate_limit, r.rate_interval_us, r.rate_burst,
    coalesce(a.revision, r.revision), coalesce(a.credits, r.unspent_credits), coalesce(a.filled_us, r.changed_us),
    coalesce(a.starts, 0),
    r.key_revision, coalesce(r.enforced AND r.key_enforced, false), r.key_limit, r.key_interval_us, r.key_burst, r.key_unspent_credits,
    c.max_active, c.max_active_per_key,
    (SELECT o.until FROM workhorse.back_off AS o
     WHERE o.queue_name = p_queue AND o.concurrency_key = '' AND o.until > p_now),
    k.backed_off,
    EXISTS (SELECT FROM workhorse.job AS j
      WHERE j.queue_name = p_queue AND j.state = 'scheduled' AND j.run_at <= p_now),
    a.queue_name IS NOT NULL, a.seen, a.written_by, a.xmin = a.written_by::xid, a.system_identifier,
    a.judged_revision, a.judged_max_active_per_key, a.rebuild_after,
    coalesce(a.head_floor, 0), coalesce(a.opens_floor, 0), coalesce(a.sweep_after, ''),
    NULL::text[]
  INTO g
  FROM (SELECT EXISTS (SELECT FROM workhorse.back_off AS o
      WHERE o.queue_name = p_queue AND o.concurrency_key > '') AS backed_off) AS k
  LEFT JOIN LATERAL (SELECT * FROM workhorse.rate_limit_change AS rc
    WHERE rc.queue_name = p_queue ORDER BY rc.revision DESC LIMIT 1) AS r ON true
  LEFT JOIN workhorse.queue_admission AS a ON a.queue_name = p_queue
  LEFT JOIN workhorse.concurrency_policy AS c ON c.queue_name = p_queue;
  RETURN g;
END $$;

-- Whether claims of the queue must take turns. Asked before the lock, to know which one to take.
CREATE OR REPLACE FUNCTION workhorse.is_governed(p_queue text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  RETURN coalesce((SELECT r.enforced FROM workhorse.rate_limit_change AS r
      WHERE r.queue_name = p_queue ORDER BY r.revision DESC LIMIT 1), false)
    OR EXISTS (SELECT FROM workhorse.concurrency_policy AS c WHERE c.queue_name = p_queue)
    OR EXISTS (SELECT FROM workhorse.back_off AS o WHERE o.queue_name = p_queue AND o.concurrency_key > '');
END $$;

-- Lock of a queue's admission: exclusive for claims of a governed queue and whoever else writes what they keep, shared for
-- claims of an ungoverned one.
CREATE OR REPLACE FUNCTION workhorse.admission_lock_id(p_queue text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT pg_catalog.hashtextextended('workhorse:claim:' || p_queue, 0) $$;
