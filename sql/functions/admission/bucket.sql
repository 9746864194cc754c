-- Token-bucket arithmetic in integers. A bucket holds credits: one token is interval_us credits and every microsecond adds
-- rate_limit credits, up to burst tokens. Nothing is rounded while a definition lasts, so starts neither drift above the
-- rate nor below it. Largest capacity: 1,000,000 tokens of 86,400,000,000 credits, well inside bigint.

-- What a bucket holds at p_now_us. Elapsed time is clamped at zero (a clock that stepped back adds nothing) and at the
-- time that fills the bucket (so that the product cannot overflow).
CREATE OR REPLACE FUNCTION workhorse.refill(
  p_credits bigint, p_filled_us bigint, p_now_us bigint, p_limit bigint, p_interval_us bigint, p_burst bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE
    WHEN p_now_us <= p_filled_us THEN p_credits
    WHEN p_now_us - p_filled_us > (p_burst * p_interval_us - p_credits) / p_limit THEN p_burst * p_interval_us
    ELSE p_credits + (p_now_us - p_filled_us) * p_limit
  END
$$;

-- A balance carried into another definition: the same tokens (fraction rounded down to a credit), cut to the new burst.
CREATE OR REPLACE FUNCTION workhorse.carry(
  p_credits bigint, p_old_interval_us bigint, p_interval_us bigint, p_burst bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT least(pg_catalog.div(p_credits::numeric * p_interval_us, p_old_interval_us), p_burst::numeric * p_interval_us)::bigint
$$;

-- One step over a change of definition at p_now_us. A bucket left behind by a deleted limit (p_enforced false) exists only
-- until it is full again: from then on the new definition starts full, as any new policy does.
CREATE OR REPLACE FUNCTION workhorse.redefine(
  p_credits bigint, p_filled_us bigint, p_now_us bigint,
  p_enforced boolean, p_old_limit bigint, p_old_interval_us bigint, p_old_burst bigint,
  p_interval_us bigint, p_burst bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE
    WHEN NOT p_enforced AND filled.credits >= p_old_burst * p_old_interval_us THEN p_burst * p_interval_us
    ELSE workhorse.carry(filled.credits, p_old_interval_us, p_interval_us, p_burst)
  END
  FROM (SELECT workhorse.refill(p_credits, p_filled_us, p_now_us, p_old_limit, p_old_interval_us, p_old_burst)
    AS credits) AS filled
$$;

-- When a bucket next holds a whole token, in microseconds since 1970 (its own reading if it already does).
CREATE OR REPLACE FUNCTION workhorse.token_us(p_credits bigint, p_filled_us bigint, p_limit bigint, p_interval_us bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT p_filled_us + greatest(0, (p_interval_us - p_credits + p_limit - 1) / p_limit)
$$;
