-- Schema 1.0: policies, jobs, and what admission keeps. The functions that work on these tables are in ../functions.
-- Text columns that are compared or sorted use the "C" collation: the same order on every server, and faster.

-- Policies -----------------------------------------------------------------------------------------------------------

CREATE TABLE workhorse.rate_limit_policy (
  queue_name text COLLATE "C" PRIMARY KEY CHECK (octet_length(queue_name) BETWEEN 1 AND 256),
  namespace text COLLATE "C" NOT NULL CHECK (octet_length(namespace) BETWEEN 1 AND 256),
  rate_limit integer NOT NULL CHECK (rate_limit BETWEEN 1 AND 1000000),
  rate_interval_ms integer NOT NULL CHECK (rate_interval_ms BETWEEN 1 AND 86400000),
  rate_burst integer NOT NULL CHECK (rate_burst BETWEEN 1 AND 1000000),
  per_key_limit integer CHECK (per_key_limit BETWEEN 1 AND 1000000),
  per_key_interval_ms integer CHECK (per_key_interval_ms BETWEEN 1 AND 86400000),
  per_key_burst integer CHECK (per_key_burst BETWEEN 1 AND 1000000),
  updated_at timestamptz NOT NULL,
  CHECK (num_nulls(per_key_limit, per_key_interval_ms, per_key_burst) IN (0, 3))
);
CREATE INDEX rate_limit_policy_namespace_idx ON workhorse.rate_limit_policy (namespace);
COMMENT ON TABLE workhorse.rate_limit_policy IS
  'How fast jobs of a queue may start. Changed only by workhorse.sync_rate_limit_policies_v1.';

CREATE TABLE workhorse.concurrency_policy (
  queue_name text COLLATE "C" PRIMARY KEY CHECK (octet_length(queue_name) BETWEEN 1 AND 256),
  namespace text COLLATE "C" NOT NULL CHECK (octet_length(namespace) BETWEEN 1 AND 256),
  max_active integer NOT NULL CHECK (max_active BETWEEN 1 AND 1000000),
  max_active_per_key integer CHECK (max_active_per_key >= 1 AND max_active_per_key <= max_active),
  updated_at timestamptz NOT NULL
);
CREATE INDEX concurrency_policy_namespace_idx ON workhorse.concurrency_policy (namespace);
COMMENT ON TABLE workhorse.concurrency_policy IS
  'How many jobs of a queue may be active at once. Changed only by workhorse.sync_concurrency_policies_v1.';

-- Every change of a rate limit, in order. Claims bring a bucket from the definition it last ran under to the present
-- one by folding over these rows, so a sync neither locks nor rewrites a bucket, however many there are.
-- A deleted policy's last row is not enforced and keeps the rate at which the buckets left behind go on filling.
CREATE TABLE workhorse.rate_limit_change (
  queue_name text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  changed_us bigint NOT NULL,
  enforced boolean NOT NULL,
  rate_limit bigint NOT NULL,
  rate_interval_us bigint NOT NULL,
  rate_burst bigint NOT NULL,
  unspent_credits bigint NOT NULL,
  key_enforced boolean NOT NULL,
  key_limit bigint,
  key_interval_us bigint,
  key_burst bigint,
  key_unspent_credits bigint,
  PRIMARY KEY (queue_name, revision)
);
COMMENT ON COLUMN workhorse.rate_limit_change.changed_us IS 'Reading of the clock, microseconds since 1970.';
COMMENT ON COLUMN workhorse.rate_limit_change.unspent_credits IS
  'What a bucket that was never drawn from holds at changed_us, in credits of this definition.';

-- Buckets: written only by claims, under the queue's admission lock (see ../README.md). One token is interval_us credits;
-- a microsecond adds rate_limit credits: integers that keep the fraction.
CREATE TABLE workhorse.queue_bucket (
  queue_name text COLLATE "C" PRIMARY KEY,
  revision bigint NOT NULL,
  credits bigint NOT NULL,
  filled_us bigint NOT NULL,
  starts bigint NOT NULL,
  sweep_after text COLLATE "C"
) WITH (fillfactor = 50);
CREATE TABLE workhorse.key_bucket (
  queue_name text COLLATE "C" NOT NULL,
  concurrency_key text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  credits bigint NOT NULL,
  filled_us bigint NOT NULL,
  PRIMARY KEY (queue_name, concurrency_key)
) WITH (fillfactor = 70);

CREATE TABLE workhorse.back_off (
  queue_name text COLLATE "C" NOT NULL CHECK (octet_length(queue_name) BETWEEN 1 AND 256),
  concurrency_key text COLLATE "C" NOT NULL,
  until timestamptz NOT NULL,
  reason text,
  PRIMARY KEY (queue_name, concurrency_key)
);
COMMENT ON COLUMN workhorse.back_off.concurrency_key IS 'The empty string stands for the whole queue.';

-- Jobs ---------------------------------------------------------------------------------------------------------------

CREATE TYPE workhorse.job_state AS ENUM ('scheduled', 'ready', 'active', 'completed', 'failed', 'cancelled');

CREATE TABLE workhorse.job (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- Ascending place in the line: priority (higher first) in the upper 16 bits, then age, which is the id.
  place bigint NOT NULL GENERATED ALWAYS AS (((32767 - priority)::bigint << 47) + id) STORED,
  state workhorse.job_state NOT NULL,
  priority smallint NOT NULL DEFAULT 0,
  attempt integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL DEFAULT 25 CHECK (max_attempts BETWEEN 1 AND 1000000),
  fence_token bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL,
  run_at timestamptz,
  started_at timestamptz,
  lease_expires_at timestamptz,
  finished_at timestamptz,
  queue_name text COLLATE "C" NOT NULL CHECK (octet_length(queue_name) BETWEEN 1 AND 256),
  concurrency_key text COLLATE "C" CHECK (octet_length(concurrency_key) BETWEEN 1 AND 256),
  type text NOT NULL CHECK (octet_length(type) BETWEEN 1 AND 256),
  payload jsonb NOT NULL,
  retry_policy jsonb,
  worker_id text,
  result jsonb,
  error jsonb,
  retry_rule text
);
COMMENT ON COLUMN workhorse.job.attempt IS 'Starts that count: a released start does not.';
COMMENT ON COLUMN workhorse.job.fence_token IS 'Number of starts ever; only the holder of the latest may move the job.';
COMMENT ON COLUMN workhorse.job.retry_rule IS 'Which rule chose the delay of the latest retry.';

CREATE INDEX job_ready_idx ON workhorse.job (queue_name, place) WHERE state = 'ready';
CREATE INDEX job_ready_key_idx ON workhorse.job (queue_name, concurrency_key, place) WHERE state = 'ready';
CREATE INDEX job_scheduled_idx ON workhorse.job (queue_name, run_at) WHERE state = 'scheduled';
CREATE INDEX job_due_idx ON workhorse.job (run_at) WHERE state = 'scheduled';
CREATE INDEX job_active_idx ON workhorse.job (queue_name, concurrency_key, lease_expires_at) WHERE state = 'active';
CREATE INDEX job_lease_idx ON workhorse.job (lease_expires_at) WHERE state = 'active';
CREATE INDEX job_finished_idx ON workhorse.job (finished_at) WHERE state IN ('completed', 'failed', 'cancelled');
