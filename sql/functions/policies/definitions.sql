-- What a definition may look like. The *_ok functions are cheap and run on every definition; the *_problem functions say
-- what is wrong with one of them.

CREATE OR REPLACE FUNCTION workhorse.rate_ok(p_rate jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE WHEN pg_catalog.jsonb_typeof(p_rate) = 'object'
    THEN (p_rate - '{limit,intervalMs,burst}'::text[]) = '{}'
      AND workhorse.is_integer(p_rate -> 'limit', 1, 1000000)
      AND workhorse.is_integer(p_rate -> 'intervalMs', 1, 86400000)
      AND workhorse.is_integer(p_rate -> 'burst', 1, 1000000)
    ELSE false END
$$;

CREATE OR REPLACE FUNCTION workhorse.rate_problem(p_field text, p_rate jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE
    WHEN jsonb_typeof(p_rate) IS DISTINCT FROM 'object' THEN
      format('%s is %s; accepted: {"limit": .., "intervalMs": .., "burst": ..}', p_field, workhorse.shown(p_rate))
    ELSE coalesce(
      workhorse.unknown_field_problem(p_field, p_rate, '{limit,intervalMs,burst}'),
      workhorse.integer_problem(p_field || '.limit', p_rate -> 'limit', 1, 1000000),
      workhorse.integer_problem(p_field || '.intervalMs', p_rate -> 'intervalMs', 1, 86400000),
      workhorse.integer_problem(p_field || '.burst', p_rate -> 'burst', 1, 1000000))
  END
$$;

CREATE OR REPLACE FUNCTION workhorse.queue_ok(p_queue jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE WHEN pg_catalog.jsonb_typeof(p_queue) = 'string'
    THEN pg_catalog.octet_length(p_queue #>> '{}') BETWEEN 1 AND 256 ELSE false END
$$;

CREATE OR REPLACE FUNCTION workhorse.rate_limit_definition_ok(p_definition jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE WHEN pg_catalog.jsonb_typeof(p_definition) = 'object'
    THEN (p_definition - '{queue,rate,perKey}'::text[]) = '{}'
      AND workhorse.queue_ok(p_definition -> 'queue')
      AND workhorse.rate_ok(p_definition -> 'rate')
      AND (coalesce(pg_catalog.jsonb_typeof(p_definition -> 'perKey'), 'null') = 'null'
        OR workhorse.rate_ok(p_definition -> 'perKey'))
    ELSE false END
$$;

CREATE OR REPLACE FUNCTION workhorse.rate_limit_definition_problem(p_definition jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE
    WHEN jsonb_typeof(p_definition) <> 'object' THEN
      format('the definition is %s; accepted: {"queue": .., "rate": {..}, "perKey": {..} or null}',
        workhorse.shown(p_definition))
    ELSE coalesce(
      workhorse.unknown_field_problem('', p_definition, '{queue,rate,perKey}'),
      workhorse.name_problem('queue', p_definition -> 'queue'),
      workhorse.rate_problem('rate', p_definition -> 'rate'),
      CASE WHEN jsonb_typeof(p_definition -> 'perKey') <> 'null'
        THEN workhorse.rate_problem('perKey', p_definition -> 'perKey') END)
  END
$$;

CREATE OR REPLACE FUNCTION workhorse.concurrency_definition_ok(p_definition jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE WHEN pg_catalog.jsonb_typeof(p_definition) = 'object'
    THEN (p_definition - '{queue,maxActive,maxActivePerKey}'::text[]) = '{}'
      AND workhorse.queue_ok(p_definition -> 'queue')
      AND CASE WHEN workhorse.is_integer(p_definition -> 'maxActive', 1, 1000000)
        THEN coalesce(pg_catalog.jsonb_typeof(p_definition -> 'maxActivePerKey'), 'null') = 'null'
          OR workhorse.is_integer(p_definition -> 'maxActivePerKey', 1, (p_definition -> 'maxActive')::numeric::bigint)
        ELSE false END
    ELSE false END
$$;

CREATE OR REPLACE FUNCTION workhorse.concurrency_definition_problem(p_definition jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE
    WHEN jsonb_typeof(p_definition) <> 'object' THEN
      format('the definition is %s; accepted: {"queue": .., "maxActive": .., "maxActivePerKey": .. or null}',
        workhorse.shown(p_definition))
    ELSE coalesce(
      workhorse.unknown_field_problem('', p_definition, '{queue,maxActive,maxActivePerKey}'),
      workhorse.name_problem('queue', p_definition -> 'queue'),
      workhorse.integer_problem('maxActive', p_definition -> 'maxActive', 1, 1000000),
      CASE WHEN jsonb_typeof(p_definition -> 'maxActivePerKey') <> 'null' THEN
        coalesce(
          workhorse.integer_problem('maxActivePerKey', p_definition -> 'maxActivePerKey', 1, 1000000),
          CASE WHEN (p_definition -> 'maxActivePerKey')::numeric > (p_definition -> 'maxActive')::numeric THEN
            format('maxActivePerKey is %s, above maxActive, which is %s; accepted: 1 to maxActive',
              p_definition -> 'maxActivePerKey', p_definition -> 'maxActive') END) END)
  END
$$;

-- What both sync functions refuse before any lock. p_problem names the function that explains a bad definition.
CREATE OR REPLACE FUNCTION workhorse.check_sync(
  p_kind text, p_namespace text, p_definitions jsonb, p_prune boolean, p_all_ok boolean)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_problem text;
  v_index bigint;
  v_queue text;
  v_first bigint;
BEGIN
  v_problem := coalesce(
    workhorse.name_problem('namespace', p_namespace),
    CASE WHEN p_prune IS NULL THEN 'prune is null; accepted: true or false' END,
    CASE
      WHEN p_definitions IS NULL OR jsonb_typeof(p_definitions) <> 'array' THEN
        format('definitions is %s; accepted: an array of at most 10,000 definitions', workhorse.shown(p_definitions))
      WHEN jsonb_array_length(p_definitions) > 10000 THEN
        format('definitions has %s elements; accepted: at most 10,000', jsonb_array_length(p_definitions))
    END);
  IF v_problem IS NOT NULL THEN
    PERFORM workhorse.refuse('WH002', format('invalid call of sync for %s policies: %s', p_kind, v_problem),
      'Nothing was written. Correct the argument and sync again.',
      jsonb_build_object('problem', v_problem, 'namespace', p_namespace));
  END IF;

  IF NOT p_all_ok THEN
    SELECT d.ordinality - 1,
      CASE p_kind WHEN 'rate-limit' THEN workhorse.rate_limit_definition_problem(d.value)
        ELSE workhorse.concurrency_definition_problem(d.value) END,
      CASE WHEN jsonb_typeof(d.value -> 'queue') = 'string' THEN d.value ->> 'queue' END
    INTO v_index, v_problem, v_queue
    FROM jsonb_array_elements(p_definitions) WITH ORDINALITY AS d
    WHERE NOT CASE p_kind WHEN 'rate-limit' THEN workhorse.rate_limit_definition_ok(d.value)
      ELSE workhorse.concurrency_definition_ok(d.value) END
    ORDER BY d.ordinality LIMIT 1;
    PERFORM workhorse.refuse('WH002',
      format('invalid %s policy%s in namespace "%s" (definition %s): %s', p_kind,
        coalesce(format(' for queue "%s"', left(v_queue, 256)), ''), p_namespace, v_index + 1, v_problem),
      'Nothing was written. Correct the definition and sync again.',
      jsonb_build_object('problem', v_problem, 'namespace', p_namespace, 'queue', v_queue, 'index', v_index));
  END IF;

  SELECT queue, first, last INTO v_queue, v_first, v_index
  FROM (
    SELECT d.value ->> 'queue' AS queue, min(d.ordinality) AS first, max(d.ordinality) AS last, count(*) AS times
    FROM jsonb_array_elements(p_definitions) WITH ORDINALITY AS d GROUP BY 1
  ) AS counted WHERE times > 1 ORDER BY first LIMIT 1;
  IF FOUND THEN
    v_problem := format('queue "%s" is defined twice (definitions %s and %s); accepted: each queue once',
      v_queue, v_first, v_index);
    PERFORM workhorse.refuse('WH002',
      format('invalid %s policies in namespace "%s": %s', p_kind, p_namespace, v_problem),
      'Nothing was written. Keep one definition of the queue and sync again.',
      jsonb_build_object('problem', v_problem, 'namespace', p_namespace, 'queue', v_queue, 'index', v_index - 1));
  END IF;
END $$;

CREATE OR REPLACE FUNCTION workhorse.refuse_owned(p_kind text, p_namespace text, p_queue text, p_owner text)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM workhorse.refuse('WH001',
    format('the %s policy of queue "%s" is owned by namespace "%s"; namespace "%s" cannot change it',
      p_kind, p_queue, p_owner, p_namespace),
    format('Nothing was written. Let namespace "%s" give the queue up first (sync it without the queue), or leave the queue to it.', p_owner),
    jsonb_build_object('namespace', p_namespace, 'queue', p_queue, 'owner', p_owner));
END $$;
