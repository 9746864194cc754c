-- Lets the next claims of a queue look at its jobs afresh instead of following them from where they left off, 1,000 keys at a
-- time: for use after rows were changed by hand. Lanes are derived from the jobs and the buckets; buckets themselves are not
-- derived from anything and stay as they are. After a copy into another cluster this happens by itself. Raises WH002.
CREATE OR REPLACE FUNCTION workhorse.rebuild_lanes_v1(p_queue text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_problem text := workhorse.name_problem('queue', p_queue);
BEGIN
  IF v_problem IS NOT NULL THEN
    PERFORM workhorse.refuse('WH002', format('invalid call of rebuild_lanes_v1: %s', v_problem),
      'Nothing was changed. Give the name of one queue.', jsonb_build_object('problem', v_problem));
  END IF;
  PERFORM pg_advisory_xact_lock(workhorse.admission_lock_id(p_queue));
  UPDATE workhorse.queue_admission SET seen = NULL WHERE queue_name = p_queue;
  PERFORM pg_notify('workhorse_jobs', p_queue);
END $$;
