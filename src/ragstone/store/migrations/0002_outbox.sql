-- Copies of the vectors in an index outside this database, and what each has yet to learn.

-- A copy is filled from `vectors`, then answers until another takes its place.
CREATE TABLE indexes (
    index_id     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Kind and address of the server, without secrets.
    identity     text COLLATE "C" NOT NULL,
    -- Its collections are named so, with the model's id behind.
    prefix       text COLLATE "C" NOT NULL UNIQUE,
    state        text NOT NULL CHECK (state IN ('filling', 'ready', 'retired')),
    -- How far the filling went: the last id, in the order of the key of `vectors`, and how many.
    filled_to    text COLLATE "C" NOT NULL DEFAULT '',
    filled       bigint NOT NULL DEFAULT 0
);

CREATE UNIQUE INDEX indexes_ready ON indexes (identity) WHERE state = 'ready';

-- Vectors that were written or removed. A row leaves some time after the index took it: a search
-- that asked the index before must still learn of it.
CREATE TABLE outbox (
    seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    index_id   integer NOT NULL REFERENCES indexes ON DELETE CASCADE,
    chunk_id   text COLLATE "C" NOT NULL,
    model_id   integer NOT NULL,
    applied_at timestamptz
);

CREATE INDEX outbox_waiting ON outbox (index_id, seq) WHERE applied_at IS NULL;
CREATE INDEX outbox_applied ON outbox (index_id, applied_at) WHERE applied_at IS NOT NULL;

-- Every way that vectors change feeds every copy. Off until the first copy is registered, so that
-- nobody pays for an index that is not there.
CREATE FUNCTION feed_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO outbox (index_id, chunk_id, model_id)
    -- A retired copy is about to be deleted, which may take long: a row for it would fail on its key.
    SELECT i.index_id, r.chunk_id, r.model_id FROM indexes i CROSS JOIN changed r WHERE i.state <> 'retired';
    RETURN NULL;
END
$$;

CREATE TRIGGER vectors_written AFTER INSERT ON vectors
REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION feed_outbox();
CREATE TRIGGER vectors_changed AFTER UPDATE ON vectors
REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION feed_outbox();
CREATE TRIGGER vectors_removed AFTER DELETE ON vectors
REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION feed_outbox();
ALTER TABLE vectors DISABLE TRIGGER USER;
