-- Enqueues jobs in the caller's transaction and returns their ids in order. p_jobs: a JSON array, at most 10,000, of
-- {type, payload?, queue?, concurrencyKey?, priority?, runAt? | delayMs?, maxAttempts?, retryPolicy?}.
-- All or nothing; it only inserts, and takes no lock on anything shared with other jobs. Raises WH002.
CREATE OR REPLACE FUNCTION workhorse.enqueue_v1(p_jobs jsonb) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  v_bad bigint;
  v_now timestamptz := workhorse.clock();
BEGIN
  IF jsonb_typeof(p_jobs) IS DISTINCT FROM 'array' OR jsonb_array_length(p_jobs) > 10000 THEN
    PERFORM workhorse.refuse_jobs(p_jobs);
  END IF;

  SELECT min(j.ordinality) INTO v_bad
  FROM jsonb_array_elements(p_jobs) WITH ORDINALITY AS j WHERE NOT workhorse.job_ok(j.value);
  IF v_bad IS NOT NULL THEN
    PERFORM workhorse.refuse_job(p_jobs -> (v_bad - 1)::integer, v_bad - 1);
  END IF;

  RETURN QUERY
  WITH given AS (
    SELECT j.ordinality,
      coalesce((j.value ->> 'runAt')::timestamptz,
        v_now + (j.value ->> 'delayMs')::numeric::bigint * interval '1 millisecond') AS run_at,
      j.value
    FROM jsonb_array_elements(p_jobs) WITH ORDINALITY AS j
  )
  INSERT INTO workhorse.job
    (state, queue_name, concurrency_key, type, payload, priority, max_attempts, retry_policy, created_at, run_at)
  SELECT
    CASE WHEN run_at > v_now THEN 'scheduled' ELSE 'ready' END::workhorse.job_state,
    coalesce(value ->> 'queue', 'default'), value ->> 'concurrencyKey', value ->> 'type',
    coalesce(value -> 'payload', 'null'), coalesce((value ->> 'priority')::numeric::smallint, 0),
    coalesce((value ->> 'maxAttempts')::numeric::integer, 25), nullif(value -> 'retryPolicy', 'null'), v_now, run_at
  FROM given ORDER BY ordinality
  RETURNING id;

  PERFORM pg_notify('workhorse_jobs', queue)
  FROM (SELECT DISTINCT coalesce(j ->> 'queue', 'default') AS queue FROM jsonb_array_elements(p_jobs) AS j) AS queues;
END $$;

-- Cheap, for every job; job_problem says what is wrong with one.
CREATE OR REPLACE FUNCTION workhorse.job_ok(p_job jsonb) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
  SELECT CASE WHEN pg_catalog.jsonb_typeof(p_job) = 'object' THEN
    (p_job - '{type,payload,queue,concurrencyKey,priority,runAt,delayMs,maxAttempts,retryPolicy}'::text[]) = '{}'
    AND workhorse.queue_ok(p_job -> 'type')
    AND (p_job -> 'queue' IS NULL OR workhorse.queue_ok(p_job -> 'queue'))
    AND (coalesce(p_job -> 'concurrencyKey', 'null') = 'null' OR workhorse.queue_ok(p_job -> 'concurrencyKey'))
    AND (p_job -> 'priority' IS NULL OR workhorse.is_integer(p_job -> 'priority', -32768, 32767))
    AND (p_job -> 'maxAttempts' IS NULL OR workhorse.is_integer(p_job -> 'maxAttempts', 1, 1000000))
    AND CASE WHEN p_job -> 'runAt' IS NULL AND p_job -> 'delayMs' IS NULL AND p_job -> 'retryPolicy' IS NULL THEN true
      ELSE workhorse.job_problem(p_job) IS NULL END
  ELSE false END
$$;

CREATE OR REPLACE FUNCTION workhorse.job_problem(p_job jsonb) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_problem text;
BEGIN
  IF jsonb_typeof(p_job) IS DISTINCT FROM 'object' THEN
    RETURN format('the job is %s; accepted: {"type": .., "payload": .., "queue": .., ...}', workhorse.shown(p_job));
  END IF;
  v_problem := coalesce(
    workhorse.unknown_field_problem('', p_job,
      '{type,payload,queue,concurrencyKey,priority,runAt,delayMs,maxAttempts,retryPolicy}'),
    workhorse.name_problem('type', p_job -> 'type'),
    CASE WHEN p_job -> 'queue' IS NOT NULL THEN workhorse.name_problem('queue', p_job -> 'queue') END,
    CASE WHEN coalesce(p_job -> 'concurrencyKey', 'null') <> 'null' THEN
      workhorse.name_problem('concurrencyKey', p_job -> 'concurrencyKey') END,
    CASE WHEN p_job -> 'priority' IS NOT NULL THEN
      workhorse.integer_problem('priority', p_job -> 'priority', -32768, 32767) END,
    CASE WHEN p_job -> 'maxAttempts' IS NOT NULL THEN
      workhorse.integer_problem('maxAttempts', p_job -> 'maxAttempts', 1, 1000000) END,
    CASE WHEN p_job -> 'delayMs' IS NOT NULL THEN
      workhorse.integer_problem('delayMs', p_job -> 'delayMs', 0, 31536000000) END,
    CASE WHEN p_job -> 'delayMs' IS NOT NULL AND p_job -> 'runAt' IS NOT NULL THEN
      'runAt and delayMs are both given; accepted: one of them' END,
    CASE WHEN coalesce(p_job -> 'retryPolicy', 'null') <> 'null' THEN
      workhorse.retry_policy_problem(p_job -> 'retryPolicy') END);
  IF v_problem IS NULL AND p_job -> 'runAt' IS NOT NULL THEN
    -- A zone is asked for: without one the meaning would depend on the session's settings.
    IF jsonb_typeof(p_job -> 'runAt') <> 'string' OR p_job ->> 'runAt' !~
      '^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)$' THEN
      v_problem := format('runAt is %s; accepted: a time such as "2030-01-31T08:00:00Z"',
        workhorse.shown(p_job -> 'runAt'));
    ELSE
      BEGIN
        PERFORM (p_job ->> 'runAt')::timestamptz;
      EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format OR invalid_time_zone_displacement_value THEN
        v_problem := format('runAt is %s, which is no time; accepted: a time such as "2030-01-31T08:00:00Z"',
          workhorse.shown(p_job -> 'runAt'));
      END;
    END IF;
  END IF;
  RETURN v_problem;
END $$;

CREATE OR REPLACE FUNCTION workhorse.refuse_job(p_job jsonb, p_index bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_problem text := workhorse.job_problem(p_job);
  v_queue text := CASE WHEN jsonb_typeof(p_job -> 'queue') = 'string' THEN left(p_job ->> 'queue', 256) END;
BEGIN
  PERFORM workhorse.refuse('WH002',
    format('invalid job%s (job %s of the call): %s', coalesce(format(' for queue "%s"', v_queue), ''), p_index + 1, v_problem),
    'No job of this call was enqueued. Correct the job and enqueue again.',
    jsonb_build_object('problem', v_problem, 'queue', v_queue, 'index', p_index));
END $$;

CREATE OR REPLACE FUNCTION workhorse.refuse_jobs(p_jobs jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_problem text := CASE WHEN jsonb_typeof(p_jobs) = 'array'
    THEN format('jobs has %s elements; accepted: at most 10,000', jsonb_array_length(p_jobs))
    ELSE format('jobs is %s; accepted: an array of at most 10,000 jobs', workhorse.shown(p_jobs)) END;
BEGIN
  PERFORM workhorse.refuse('WH002', format('invalid call of enqueue_v1: %s', v_problem),
    'No job of this call was enqueued.', jsonb_build_object('problem', v_problem));
END $$;
