-- Makes the three roles and gives them their rights; calling it again is fine, also from several databases at once (roles
-- are cluster-wide). None can log in: grant them to the users that Terraform, workers and readers connect as.
--   <prefix>_policies  may change policies, and nothing else: what Terraform uses.
--   <prefix>_worker    may enqueue and run jobs, and may not change policies.
--   <prefix>_reader    may read policies, statuses and jobs without their payloads, results and errors.
-- The caller must own the schema and be allowed to create roles. Raises WH002.
CREATE OR REPLACE FUNCTION workhorse.create_roles_v1(p_prefix text DEFAULT 'workhorse') RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v_role text;
  v_function text;
BEGIN
  IF p_prefix IS NULL OR octet_length(p_prefix) NOT BETWEEN 1 AND 50 OR p_prefix ~ '^pg_' THEN
    PERFORM workhorse.refuse('WH002', format('invalid prefix %s for roles', coalesce(quote_ident(p_prefix), 'null')),
      'Accepted: 1 to 50 bytes that do not begin with pg_.');
  END IF;
  -- Two calls in one database would write the same catalog rows.
  PERFORM pg_advisory_xact_lock(hashtextextended('workhorse:install', 0));
  FOREACH v_role IN ARRAY ARRAY[p_prefix || '_policies', p_prefix || '_worker', p_prefix || '_reader'] LOOP
    IF to_regrole(quote_ident(v_role)) IS NULL THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', v_role);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN
        NULL; -- made at the same moment, from another database
      WHEN insufficient_privilege THEN
        PERFORM workhorse.refuse('42501', format('cannot make role "%s": %s may not create roles', v_role, current_user),
          'Call it as a role that has CREATEROLE and owns the schema, or let an administrator create the three roles first.');
      END;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA workhorse TO %I', v_role);
    EXECUTE format('GRANT SELECT ON workhorse.schema_migration, workhorse.rate_limit_policy, workhorse.concurrency_policy TO %I',
      v_role);
    FOREACH v_function IN ARRAY ARRAY[
      'rate_limit_statuses_v1(text[])', 'concurrency_statuses_v1(text[])', 'queue_health_v1()', 'explain_job_v1(bigint)'] LOOP
      EXECUTE format('GRANT EXECUTE ON FUNCTION workhorse.%s TO %I', v_function, v_role);
    END LOOP;
  END LOOP;

  EXECUTE format('GRANT EXECUTE ON FUNCTION workhorse.sync_rate_limit_policies_v1(text, jsonb, boolean), '
    'workhorse.sync_concurrency_policies_v1(text, jsonb, boolean) TO %I', p_prefix || '_policies');

  FOREACH v_function IN ARRAY ARRAY[
    'enqueue_v1(jsonb)', 'claim_v1(text, text, integer, integer)', 'heartbeat_v1(bigint[], bigint[], integer)',
    'complete_v1(bigint, bigint, jsonb)', 'complete_many_v1(bigint[], bigint[], text[])',
    'fail_v1(bigint, bigint, jsonb, bigint, boolean)', 'release_v1(bigint, bigint, bigint)', 'cancel_v1(bigint)',
    'recover_expired_v1(integer)', 'promote_v1(integer)', 'sweep_v1(integer, bigint)', 'back_off_v1(text, text, bigint, text)'] LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION workhorse.%s TO %I', v_function, p_prefix || '_worker');
  END LOOP;

  EXECUTE format('GRANT SELECT (id, state, priority, attempt, max_attempts, created_at, run_at, started_at, '
    'lease_expires_at, finished_at, queue_name, concurrency_key, type, worker_id, retry_policy, retry_rule, retry_delay_ms) '
    'ON workhorse.job TO %I', p_prefix || '_reader');
END $$;
