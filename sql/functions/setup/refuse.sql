-- Raises one of our errors. DETAIL carries the same facts as JSON, so that clients build typed errors from fields and
-- never from the text.
CREATE OR REPLACE FUNCTION workhorse.refuse(p_sqlstate text, p_message text, p_hint text, p_detail jsonb DEFAULT '{}')
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = p_sqlstate, MESSAGE = p_message, HINT = p_hint, DETAIL = p_detail::text;
END $$;

-- Counting and spending need statements that see what was committed while a lock was awaited.
CREATE OR REPLACE FUNCTION workhorse.require_read_committed(p_what text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM workhorse.refuse('0A000',
      format('%s cannot run at isolation level %s', p_what, upper(current_setting('transaction_isolation'))),
      'Run it in a READ COMMITTED transaction: BEGIN ISOLATION LEVEL READ COMMITTED.');
  END IF;
END $$;
