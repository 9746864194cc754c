-- How long a job waits after its p_failures-th failure (1 for the first), and which rule says so.
-- Delays end at 365 days. Sources: decorrelated jitter after "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015),
-- here with a hash of job and attempt in place of a random number, so that it can be told in advance; the default curve is
-- Sidekiq's.
CREATE OR REPLACE FUNCTION workhorse.retry_delay(
  p_policy jsonb, p_job_id bigint, p_failures integer, p_previous_delay_ms bigint,
  OUT delay_ms bigint, OUT rule text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  c_longest CONSTANT double precision := 31536000000;
  v_count double precision := greatest(p_failures - 1, 0);
  v_base double precision;
  v_max double precision;
  v_multiplier double precision;
  v_delay double precision;
BEGIN
  rule := coalesce(p_policy ->> 'kind', 'default');
  CASE rule
    WHEN 'fixed' THEN
      v_delay := (p_policy ->> 'delayMs')::double precision;
    WHEN 'exponential' THEN
      v_base := (p_policy ->> 'initialDelayMs')::double precision;
      v_max := (p_policy ->> 'maxDelayMs')::double precision;
      v_multiplier := (p_policy ->> 'multiplier')::double precision;
      -- Beyond this exponent the delay is the longest one anyway, and power() would overflow.
      v_delay := least(v_max, v_base * power(v_multiplier, least(v_count, 60 / greatest(ln(v_multiplier), 1e-9))));
    WHEN 'decorrelated-jitter' THEN
      v_base := (p_policy ->> 'baseDelayMs')::double precision;
      v_max := (p_policy ->> 'maxDelayMs')::double precision;
      v_delay := least(v_max, v_base + (3 * greatest(coalesce(p_previous_delay_ms, 0), v_base) - v_base)
        * ((hashint8extended(p_job_id, p_failures) & 2147483647) / 2147483648.0));
    ELSE
      v_delay := 1000 * (least(power(v_count, 4), c_longest) + 15 + floor(random() * 10) * (v_count + 1));
  END CASE;
  delay_ms := round(least(greatest(v_delay, 0), c_longest))::bigint;
END $$;

CREATE OR REPLACE FUNCTION workhorse.retry_policy_problem(p_policy jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_kind text;
BEGIN
  IF jsonb_typeof(p_policy) <> 'object' THEN
    RETURN format('retryPolicy is %s; accepted: an object with a "kind", or null', workhorse.shown(p_policy));
  END IF;
  v_kind := p_policy ->> 'kind';
  IF v_kind = 'fixed' THEN
    RETURN coalesce(workhorse.unknown_field_problem('retryPolicy', p_policy, '{kind,delayMs}'),
      workhorse.integer_problem('retryPolicy.delayMs', p_policy -> 'delayMs', 0, 31536000000));
  ELSIF v_kind = 'exponential' THEN
    RETURN coalesce(
      workhorse.unknown_field_problem('retryPolicy', p_policy, '{kind,initialDelayMs,multiplier,maxDelayMs}'),
      workhorse.integer_problem('retryPolicy.initialDelayMs', p_policy -> 'initialDelayMs', 0, 31536000000),
      workhorse.integer_problem('retryPolicy.maxDelayMs', p_policy -> 'maxDelayMs', 0, 31536000000),
      CASE WHEN jsonb_typeof(p_policy -> 'multiplier') IS DISTINCT FROM 'number'
          OR (p_policy ->> 'multiplier')::numeric NOT BETWEEN 1 AND 100 THEN
        format('retryPolicy.multiplier is %s; accepted: a number from 1 to 100',
          workhorse.shown(p_policy -> 'multiplier')) END);
  ELSIF v_kind = 'decorrelated-jitter' THEN
    RETURN coalesce(workhorse.unknown_field_problem('retryPolicy', p_policy, '{kind,baseDelayMs,maxDelayMs}'),
      workhorse.integer_problem('retryPolicy.baseDelayMs', p_policy -> 'baseDelayMs', 0, 31536000000),
      workhorse.integer_problem('retryPolicy.maxDelayMs', p_policy -> 'maxDelayMs', 0, 31536000000));
  END IF;
  RETURN format('retryPolicy.kind is %s; accepted: "fixed", "exponential", "decorrelated-jitter"',
    workhorse.shown(p_policy -> 'kind'));
END $$;
