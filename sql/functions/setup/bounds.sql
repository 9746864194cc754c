-- Checks of what is handed in. Each problem function returns null, or one sentence: where, what was got, what is accepted.
-- The numbers stand in sql/src/bounds.ts too; a test holds the two equal.

-- A JSON value as a person would write it, shortened.
CREATE OR REPLACE FUNCTION workhorse.shown(p_value jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE
    WHEN p_value IS NULL THEN 'missing'
    WHEN length(p_value::text) > 60 THEN left(p_value::text, 57) || '...'
    ELSE p_value::text
  END
$$;

CREATE OR REPLACE FUNCTION workhorse.is_integer(p_value jsonb, p_low bigint, p_high bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE WHEN pg_catalog.jsonb_typeof(p_value) = 'number'
    THEN p_value::numeric BETWEEN p_low AND p_high AND p_value::numeric = pg_catalog.trunc(p_value::numeric)
    ELSE false END
$$;

CREATE OR REPLACE FUNCTION workhorse.integer_problem(p_field text, p_value jsonb, p_low bigint, p_high bigint)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE WHEN workhorse.is_integer(p_value, p_low, p_high) THEN NULL
    ELSE format('%s is %s; accepted: an integer from %s to %s', p_field, workhorse.shown(p_value),
      trim(to_char(p_low, 'FM999,999,999,999')), trim(to_char(p_high, 'FM999,999,999,999'))) END
$$;

CREATE OR REPLACE FUNCTION workhorse.unknown_field_problem(p_field text, p_value jsonb, p_known text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT format('%s is not a known field; accepted: %s',
      concat_ws('.', nullif(p_field, ''), field), array_to_string(p_known, ', '))
  FROM jsonb_object_keys(p_value - p_known) AS field ORDER BY field COLLATE "C" LIMIT 1
$$;

-- A text argument that names something: 1 to 256 bytes of UTF-8.
CREATE OR REPLACE FUNCTION workhorse.name_problem(p_field text, p_value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE
    WHEN p_value IS NULL THEN format('%s is null; accepted: 1 to 256 bytes', p_field)
    WHEN octet_length(p_value) NOT BETWEEN 1 AND 256 THEN
      format('%s has %s bytes; accepted: 1 to 256 bytes', p_field, octet_length(p_value))
  END
$$;

-- The same for a JSON value.
CREATE OR REPLACE FUNCTION workhorse.name_problem(p_field text, p_value jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE
    WHEN jsonb_typeof(p_value) IS DISTINCT FROM 'string' THEN
      format('%s is %s; accepted: a string of 1 to 256 bytes', p_field, workhorse.shown(p_value))
    ELSE workhorse.name_problem(p_field, p_value #>> '{}')
  END
$$;
