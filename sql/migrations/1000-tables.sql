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
  key_revision bigint NOT NULL,
  key_enforced boolean NOT NULL,
  key_limit bigint,
  key_interval_us bigint,
  key_burst bigint,
  key_unspent_credits bigint,
  PRIMARY KEY (queue_name, revision)
);
COMMENT ON COLUMN workhorse.rate_limit_change.changed_us IS 'Reading of the clock, microseconds since 1970.';
COMMENT ON COLUMN workhorse.rate_limit_change.key_revision IS 'The revision that last changed the limit per key.';
COMMENT ON COLUMN workhorse.rate_limit_change.unspent_credits IS
  'What a bucket that was never drawn from holds at changed_us, in credits of this definition.';

-- What admission keeps: written only by claims (and clean-up) that hold the queue's admission lock; ../README.md tells how.
-- One token is interval_us credits and a microsecond adds rate_limit credits: integers that keep the fraction.
CREATE TABLE workhorse.queue_admission (
  queue_name text COLLATE "C" PRIMARY KEY,
  -- The queue's bucket, under the definition of this revision; null while no rate limit was ever charged.
  revision bigint,
  credits bigint,
  filled_us bigint,
  starts bigint NOT NULL DEFAULT 0,
  -- The lanes below have followed every job that was visible in the snapshot `seen`, but for those of the transaction
  -- written_by, which wrote this row. After a copy into another cluster xmin or the identifier tells that it is not so.
  seen pg_snapshot,
  written_by xid8,
  system_identifier bigint,
  -- Under which limits per key the lanes were judged, and the key after which they are still to be judged (null: none).
  judged_revision bigint,
  judged_max_active_per_key integer,
  rebuild_after text COLLATE "C",
  -- Every open lane's head is at least head_floor; every waiting lane opens after opens_floor.
  head_floor bigint NOT NULL DEFAULT 0,
  opens_floor bigint NOT NULL DEFAULT 0,
  -- Clean-up: the key it goes on after, and the rate limit's revision when this pass over the keys began.
  sweep_after text COLLATE "C" NOT NULL DEFAULT '',
  sweep_revision bigint
) WITH (fillfactor = 25);

-- The queue after which sweep_v1 goes on. One row.
CREATE TABLE workhorse.sweep_cursor (queue_name text COLLATE "C" NOT NULL);
INSERT INTO workhorse.sweep_cursor VALUES ('');

-- One row per key of a queue with limits per key: its bucket, and its place among the other keys. A lane is idle (no head),
-- open (it may start a job now, as far as is known) or waiting (until opens_us, for what waits_for says).
CREATE TABLE workhorse.lane (
  queue_name text COLLATE "C" NOT NULL,
  concurrency_key text COLLATE "C" NOT NULL,
  revision bigint,
  credits bigint,
  filled_us bigint,
  head bigint,
  opens_us bigint,
  waits_for text,
  PRIMARY KEY (queue_name, concurrency_key)
) WITH (fillfactor = 70);
COMMENT ON COLUMN workhorse.lane.head IS 'No ready job of the key has a lower place.';
CREATE INDEX lane_open_idx ON workhorse.lane (queue_name, head) WHERE head IS NOT NULL AND opens_us IS NULL;
CREATE INDEX lane_waiting_idx ON workhorse.lane (queue_name, opens_us) WHERE head IS NOT NULL AND opens_us IS NOT NULL;

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
  id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  -- Ascending place in the line: priority (higher first) in the upper 16 bits, then age, which is the id.
  place bigint NOT NULL GENERATED ALWAYS AS (((32767 - priority)::bigint << 47) + id) STORED,
  state workhorse.job_state NOT NULL,
  priority smallint NOT NULL DEFAULT 0,
  attempt integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL DEFAULT 25 CHECK (max_attempts BETWEEN 1 AND 1000000),
  fence_token bigint NOT NULL DEFAULT 0,
  -- The transaction that last made the job ready or ended a start of it.
  event_xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
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
  retry_rule text,
  retry_delay_ms bigint
);
COMMENT ON COLUMN workhorse.job.attempt IS 'Starts that count: a released start does not.';
COMMENT ON COLUMN workhorse.job.fence_token IS 'Number of starts ever; only the holder of the latest may move the job.';
COMMENT ON COLUMN workhorse.job.retry_rule IS 'Which rule chose the delay of the latest retry.';

-- The three lines: all ready jobs of a queue, those of a key, those without one. "id > 0" is true of every job; it keeps the
-- planner from walking the whole line to find the jobs of one key, which it may think cheap when one key has most of them.
CREATE INDEX job_ready_idx ON workhorse.job (queue_name, place) WHERE state = 'ready' AND id > 0;
CREATE INDEX job_ready_key_idx ON workhorse.job (queue_name, concurrency_key, place)
  WHERE state = 'ready' AND concurrency_key IS NOT NULL;
CREATE INDEX job_ready_keyless_idx ON workhorse.job (queue_name, place)
  WHERE state = 'ready' AND concurrency_key IS NULL;
-- How claims learn which keys something happened to since they last looked, without enqueue or completion telling them.
CREATE INDEX job_event_idx ON workhorse.job (queue_name, event_xid, concurrency_key)
  WHERE state <> 'active' AND concurrency_key IS NOT NULL;
CREATE INDEX job_scheduled_idx ON workhorse.job (queue_name, run_at) WHERE state = 'scheduled';
CREATE INDEX job_due_idx ON workhorse.job (run_at) WHERE state = 'scheduled';
CREATE INDEX job_active_idx ON workhorse.job (queue_name, concurrency_key, lease_expires_at) WHERE state = 'active';
CREATE INDEX job_lease_idx ON workhorse.job (lease_expires_at) WHERE state = 'active';
CREATE INDEX job_finished_idx ON workhorse.job (finished_at) WHERE state IN ('completed', 'failed', 'cancelled');

-- What workhorse.gate reads for one claim; see ../functions/admission/gate.sql.
CREATE TYPE workhorse.gate_reading AS (
  governed boolean,
  -- The rate limit's latest change, and the queue's bucket (the unspent one while none was charged).
  rate_enforced boolean, revision bigint, changed_us bigint, rate_limit bigint, interval_us bigint, burst bigint,
  bucket_revision bigint, credits bigint, filled_us bigint, starts bigint,
  key_revision bigint, key_enforced boolean, key_limit bigint, key_interval_us bigint, key_burst bigint, key_unspent_credits bigint,
  -- Caps, back-offs, schedule.
  max_active integer, max_active_per_key integer,
  backed_off_until timestamptz, keys_backed_off boolean, due boolean,
  -- How far the lanes have followed.
  admission_exists boolean, seen pg_snapshot, written_by xid8, own_row boolean, system_identifier bigint,
  judged_revision bigint, judged_max_active_per_key integer, rebuild_after text,
  head_floor bigint, opens_floor bigint, sweep_after text,
  -- The keys (null: none) of active jobs whose lease has expired unless a transaction under way has extended it.
  unsettled text[]);

-- A row of workhorse.claim_v1.
CREATE TYPE workhorse.claimed AS (
  id bigint, queue_name text, type text, payload jsonb, concurrency_key text, priority integer, attempt integer,
  max_attempts integer, fence_token bigint, created_at timestamptz, started_at timestamptz, lease_expires_at timestamptz,
  next_eligible_at timestamptz, wait_ms bigint, reason text);
