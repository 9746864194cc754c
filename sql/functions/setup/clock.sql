-- The one reading of time that admission, leases and schedules use: PostgreSQL's clock, never the transaction's frozen
-- now(). Tests replace this function in their own database; nothing that a client can set reaches it.
CREATE OR REPLACE FUNCTION workhorse.clock() RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT pg_catalog.clock_timestamp() $$;

-- Microseconds since 1970, exact.
CREATE OR REPLACE FUNCTION workhorse.to_us(p_time timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM p_time) * 1000000)::bigint $$;

CREATE OR REPLACE FUNCTION workhorse.from_us(p_us bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT timestamptz 'epoch' + (p_us / 1000000) * interval '1 second' + (p_us % 1000000) * interval '1 microsecond' $$;
