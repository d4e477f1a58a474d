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
    -- The one model of the vectors in this base; null until the first document is in.
    model_id   integer REFERENCES models,
    created_at timestamptz NOT NULL DEFAULT now()
);

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
    chunk_count integer NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (base_id, uri)
);

-- "index" counts within the document; text is characters start_at to end_at of the document's.
CREATE TABLE chunks (
    chunk_id    text COLLATE "C" PRIMARY KEY,
    document_id text COLLATE "C" NOT NULL REFERENCES documents ON DELETE CASCADE,
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
    UNIQUE (document_id, index)
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
    base_id        text COLLATE "C" NOT NULL,
    embedding_hash text COLLATE "C" NOT NULL,
    embedding      halfvec NOT NULL,
    PRIMARY KEY (chunk_id, model_id)
) WITH (
    -- Dead rows cost every walk through the graph: vacuum after 1% rather than 20%.
    autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_scale_factor = 0.01
);

-- In the row itself, where a scan reads it, unless the row would outgrow a page.
ALTER TABLE vectors ALTER COLUMN embedding SET STORAGE MAIN;

CREATE INDEX vectors_base ON vectors (model_id, base_id);
CREATE INDEX vectors_hash ON vectors (model_id, embedding_hash);
