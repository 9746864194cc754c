-- Brings a bucket from the revision it last ran under to the present one, over every change in between.
-- p_axis: 'queue' or 'key'. The result holds at greatest(p_filled_us, time of the latest change).
CREATE OR REPLACE FUNCTION workhorse.fold_bucket(
  p_axis text, p_queue text, p_revision bigint, p_credits bigint, p_filled_us bigint)
RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  old workhorse.rate_limit_change;
  new workhorse.rate_limit_change;
BEGIN
  FOR new IN
    SELECT * FROM workhorse.rate_limit_change
    WHERE queue_name = p_queue AND revision >= p_revision ORDER BY revision
  LOOP
    IF old.revision IS NOT NULL THEN
      IF p_axis = 'queue' THEN
        p_credits := workhorse.redefine(p_credits, p_filled_us, new.changed_us, old.enforced,
          old.rate_limit, old.rate_interval_us, old.rate_burst, new.rate_interval_us, new.rate_burst);
      ELSE
        p_credits := workhorse.redefine(p_credits, p_filled_us, new.changed_us, old.key_enforced,
          old.key_limit, old.key_interval_us, old.key_burst, new.key_interval_us, new.key_burst);
      END IF;
      p_filled_us := greatest(p_filled_us, new.changed_us);
    END IF;
    old := new;
  END LOOP;
  RETURN p_credits;
END $$;
