-- The id of a job is random, so that it says nothing of the jobs of others. `seq` is their order.

ALTER TABLE jobs RENAME job_id TO seq;
-- From PostgreSQL 18 on it has a name, which the new column is to have.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'jobs'::regclass AND conname = 'jobs_job_id_not_null') THEN
        ALTER TABLE jobs RENAME CONSTRAINT jobs_job_id_not_null TO jobs_seq_not_null;
    END IF;
END
$$;
ALTER TABLE jobs ADD COLUMN job_id text COLLATE "C" NOT NULL UNIQUE DEFAULT replace(gen_random_uuid()::text, '-', '');
