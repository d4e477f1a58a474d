-- Documents, their chunks, the vectors of the chunks.
--
-- Names and ids compare by code point whatever the server's locale is: COLLATE "C".

CREATE TABLE models (
    model_id  integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    identity  text COLLATE "C" NOT NULL UNIQUE,
    dimension integer NOT NULL CHECK (dimension BETWEEN 1 AND 16000)
);

CREATE TABLE bases (
    base_id    text COLLATE "C" PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- What the texts of a base are split into and embedded with, once. The one that is `active`
-- answers; `building` is not complete yet; `retired` answered before and can again; an
-- `abandoned` one only waits for its rows to be collected.
CREATE TABLE generations (
    generation_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    base_id       text COLLATE "C" NOT NULL REFERENCES bases ON DELETE CASCADE,
    model_id      integer NOT NULL REFERENCES models,
    -- Splitter and terms; empty where its documents were made with several, or it is not known.
    settings      text COLLATE "C" NOT NULL DEFAULT '',
    state         text COLLATE "C" NOT NULL
                  CHECK (state IN ('active', 'building', 'retired', 'abandoned')),
    created_at    timestamptz NOT NULL DEFAULT now()
);

CREATE UNIQUE INDEX generations_state ON generations (base_id, state) WHERE state <> 'abandoned';
CREATE INDEX generations_base ON generations (base_id);

CREATE TABLE documents (
    document_id text COLLATE "C" PRIMARY KEY,
    base_id     text COLLATE "C" NOT NULL REFERENCES bases,
    uri         text COLLATE "C" NOT NULL,
    title       text NOT NULL,
    text        text NOT NULL,
    media_type  text NOT NULL,
    revision    text COLLATE "C" NOT NULL,
    pages       jsonb NOT NULL,
    headings    jsonb NOT NULL,
    metadata    jsonb NOT NULL,
    warnings    jsonb NOT NULL,
    -- Where blocks of the text stand on their pages: [page, start, end, x0, y0, x1, y1] each.
    boxes       jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    -- Which rows of a spreadsheet stand where in the text: [first, last, start, end] each.
    rows        jsonb NOT NULL DEFAULT '[]',
    UNIQUE (base_id, uri)
);

-- A document that is in a generation: the active one has every document of its base. Replacing
-- a document takes it out of the others.
CREATE TABLE generation_documents (
    generation_id integer NOT NULL REFERENCES generations ON DELETE CASCADE,
    document_id   text COLLATE "C" NOT NULL REFERENCES documents ON DELETE CASCADE,
    chunk_count   integer NOT NULL,
    -- The sum over its chunks.
    term_count    integer NOT NULL,
    PRIMARY KEY (document_id, generation_id)
);

CREATE INDEX generation_documents_generation ON generation_documents (generation_id);

-- "index" counts within the document; text is characters start_at to end_at of the document's.
CREATE TABLE chunks (
    chunk_id    text COLLATE "C" PRIMARY KEY,
    document_id text COLLATE "C" NOT NULL,
    generation_id integer NOT NULL,
    base_id     text COLLATE "C" NOT NULL,
    index       integer NOT NULL,
    text        text NOT NULL,
    start_at    integer NOT NULL,
    end_at      integer NOT NULL,
    context     text NOT NULL,
    page        integer,
    headings    jsonb NOT NULL,
    metadata    jsonb NOT NULL,
    -- The longer passage this chunk stands for, as characters of the document's text.
    parent_start integer,
    parent_end  integer,
    -- What ragstone.terms.analyze makes of context and text.
    terms       tsvector NOT NULL,
    -- How many terms these are, repetitions included.
    term_count  integer NOT NULL,
    -- False: kept and shown, found by no search.
    enabled     boolean NOT NULL DEFAULT true,
    -- Those of the document's rows that stand in it, the first counted from its beginning. Null: not known.
    rows        jsonb,
    UNIQUE (document_id, generation_id, index),
    FOREIGN KEY (document_id, generation_id) REFERENCES generation_documents ON DELETE CASCADE
) WITH (
    -- Text and terms lie beside the rows, not in them: counting the rows that hold a word, or
    -- that a filter passes, then reads a tenth of the pages.
    toast_tuple_target = 256
);

ALTER TABLE chunks ALTER COLUMN terms SET STORAGE EXTERNAL;
-- ANALYZE counts the 3,000 commonest terms: searches weigh these without counting them.
ALTER TABLE chunks ALTER COLUMN terms SET STATISTICS 300;

CREATE INDEX chunks_base ON chunks (base_id);
CREATE INDEX chunks_metadata ON chunks USING gin (metadata jsonb_path_ops);
-- Without a pending list a search never has to read what writers left unsorted.
CREATE INDEX chunks_terms ON chunks USING gin (terms) WITH (fastupdate = off);

-- Unit vectors, or zero for a text without content. The nearest-neighbour index is made at
-- run time, one a model, when a model has many vectors: vectors_hnsw_<model_id>.
CREATE TABLE vectors (
    chunk_id       text COLLATE "C" NOT NULL REFERENCES chunks ON DELETE CASCADE,
    model_id       integer NOT NULL REFERENCES models,
    generation_id  integer NOT NULL,
    base_id        text COLLATE "C" NOT NULL,
    embedding_hash text COLLATE "C" NOT NULL,
    embedding      halfvec NOT NULL,
    -- The signs of its tokens, which the best hits are compared by; null where the model has none.
    tokens         bytea,
    enabled        boolean NOT NULL DEFAULT true,
    PRIMARY KEY (chunk_id)
) WITH (
    -- Dead rows cost every walk through the graph: vacuum after 1% rather than 20%.
    autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_scale_factor = 0.01
);

-- In the row itself, where a scan reads it, unless the row would outgrow a page.
ALTER TABLE vectors ALTER COLUMN embedding SET STORAGE MAIN;
-- Beside the rows, and as they are: signs do not compress.
ALTER TABLE vectors ALTER COLUMN tokens SET STORAGE EXTERNAL;

CREATE INDEX vectors_base ON vectors (model_id, base_id);
CREATE INDEX vectors_hash ON vectors (model_id, embedding_hash);

-- What was deleted and when: ids and counts of rows, no content. `chunk_ids` are those the
-- document had in any generation, so that tables which know only these can be looked through.
CREATE TABLE deletions (
    document_id text COLLATE "C" PRIMARY KEY,
    chunk_ids   text[] COLLATE "C" NOT NULL,
    rows        jsonb NOT NULL,
    deleted_at  timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX deletions_time ON deletions (deleted_at);

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
