-- The application beside the library's tables: files and their jobs, conversations, keys.

-- What people say about a base. A base without a row has the defaults.
CREATE TABLE base_details (
    base_id     text COLLATE "C" PRIMARY KEY REFERENCES bases ON DELETE CASCADE,
    description text NOT NULL DEFAULT '',
    category    text NOT NULL DEFAULT '',
    -- Settings of the server that this base has otherwise: kb/base_settings.py says which can be.
    settings    jsonb NOT NULL DEFAULT '{}',
    accesses    bigint NOT NULL DEFAULT 0,
    updated_at  timestamptz NOT NULL DEFAULT now()
);

-- Originals, named by the SHA-256 of their bytes; the bytes lie in the blob store.
CREATE TABLE blobs (
    blob_hash  text COLLATE "C" PRIMARY KEY,
    size       bigint NOT NULL CHECK (size >= 0),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- An upload under way: its bytes may be stored while no file names them yet. One that was never
-- released, because its process died, ends at `until`.
CREATE TABLE blob_holds (
    hold_id   text COLLATE "C" PRIMARY KEY,
    blob_hash text COLLATE "C" NOT NULL,
    until     timestamptz NOT NULL
);

CREATE INDEX blob_holds_hash ON blob_holds (blob_hash);

-- A document that was uploaded, from the moment of the upload: `documents` has it once it can be
-- searched. One that was added on the command line has no row here and is always ready.
CREATE TABLE files (
    document_id  text COLLATE "C" PRIMARY KEY,
    base_id      text COLLATE "C" NOT NULL REFERENCES bases,
    uri          text COLLATE "C" NOT NULL,
    name         text NOT NULL,
    category     text NOT NULL DEFAULT '',
    metadata     jsonb NOT NULL DEFAULT '{}',
    -- Null until the address it comes from has been read.
    blob_hash    text COLLATE "C" REFERENCES blobs,
    size         bigint NOT NULL DEFAULT 0,
    media_type   text NOT NULL DEFAULT '',
    -- Counts what was put under this uri; a job that read an earlier version is not the last word.
    version      integer NOT NULL DEFAULT 1,
    status       text COLLATE "C" NOT NULL
                 CHECK (status IN ('pending', 'processing', 'ready', 'failed')),
    -- What a failure is called, and the values of its sentence (ragstone.messages).
    error_code   text COLLATE "C",
    error_values jsonb,
    -- Members of a container that could not be read: [{uri, name, code, values}].
    failures     jsonb NOT NULL DEFAULT '[]',
    accesses     bigint NOT NULL DEFAULT 0,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (base_id, uri)
);

CREATE INDEX files_blob ON files (blob_hash);
CREATE INDEX files_status ON files (base_id, status);

-- Work to do, and the one truth about it. Whoever takes a job holds it until `lease_until` and
-- says so again and again; what a dead worker held becomes free by itself.
CREATE TABLE jobs (
    -- Their order.
    seq          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind         text COLLATE "C" NOT NULL CHECK (kind IN ('index', 'reindex')),
    base_id      text COLLATE "C" NOT NULL REFERENCES bases ON DELETE CASCADE,
    -- Of `index`: the file.
    document_id  text COLLATE "C" REFERENCES files ON DELETE CASCADE,
    state        text COLLATE "C" NOT NULL DEFAULT 'queued'
                 CHECK (state IN ('queued', 'running', 'done', 'dead', 'cancelled')),
    stage        text COLLATE "C" NOT NULL DEFAULT '',
    -- Share of the stage that is done, 0 to 1.
    progress     real NOT NULL DEFAULT 0,
    attempts     integer NOT NULL DEFAULT 0,
    -- A job that failed for a reason that may pass waits until then.
    run_after    timestamptz NOT NULL DEFAULT now(),
    worker_id    text COLLATE "C",
    lease_until  timestamptz,
    -- Asked for once more while it ran: it begins anew when it ends.
    again        boolean NOT NULL DEFAULT false,
    error_code   text COLLATE "C",
    error_values jsonb,
    created_at   timestamptz NOT NULL DEFAULT now(),
    started_at   timestamptz,
    finished_at  timestamptz,
    -- Random, so that it says nothing of the jobs of others.
    job_id       text COLLATE "C" NOT NULL UNIQUE DEFAULT replace(gen_random_uuid()::text, '-', ''),
    CHECK ((kind = 'index') = (document_id IS NOT NULL))
);

-- One at a time for each document, and for each base.
CREATE UNIQUE INDEX jobs_document ON jobs (document_id) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX jobs_reindex ON jobs (base_id) WHERE kind = 'reindex' AND state IN ('queued', 'running');
CREATE INDEX jobs_of_document ON jobs (document_id);
CREATE INDEX jobs_waiting ON jobs (run_after, seq) WHERE state = 'queued';
CREATE INDEX jobs_running ON jobs (lease_until) WHERE state = 'running';

-- Who may do what. The key itself is not stored.
CREATE TABLE keys (
    key_id       text COLLATE "C" PRIMARY KEY,
    name         text NOT NULL,
    -- The first characters, for people to tell keys apart.
    prefix       text COLLATE "C" NOT NULL,
    key_hash     bytea NOT NULL UNIQUE,
    role         text COLLATE "C" NOT NULL CHECK (role IN ('reader', 'editor', 'admin')),
    -- Null: every base.
    bases        text[] COLLATE "C",
    per_minute   integer CHECK (per_minute > 0),
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz,
    -- Whoever makes keys could make one that sees more.
    CHECK (role <> 'admin' OR bases IS NULL)
);

-- What was changed, when, by which key; never a question or a content.
CREATE TABLE audit (
    audit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT now(),
    key_id   text COLLATE "C",
    action   text COLLATE "C" NOT NULL,
    base_id  text COLLATE "C",
    subject  text NOT NULL DEFAULT '',
    detail   jsonb NOT NULL DEFAULT '{}'
);

CREATE INDEX audit_at ON audit (at);

CREATE TABLE sessions (
    session_id text COLLATE "C" PRIMARY KEY,
    -- The key that made it; null on a server that asks for none.
    key_id     text COLLATE "C" REFERENCES keys,
    title      text NOT NULL,
    pinned     boolean NOT NULL DEFAULT false,
    -- About every base that who asks may see; otherwise about those of session_bases.
    every_base boolean NOT NULL DEFAULT false,
    -- The number that the next message gets.
    next_seq   integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX sessions_key ON sessions (key_id, updated_at);

CREATE TABLE session_bases (
    session_id text COLLATE "C" NOT NULL REFERENCES sessions ON DELETE CASCADE,
    base_id    text COLLATE "C" NOT NULL REFERENCES bases ON DELETE CASCADE,
    position   integer NOT NULL,
    PRIMARY KEY (session_id, base_id)
);

CREATE INDEX session_bases_base ON session_bases (base_id);

CREATE TABLE messages (
    message_id   text COLLATE "C" PRIMARY KEY,
    session_id   text COLLATE "C" NOT NULL REFERENCES sessions ON DELETE CASCADE,
    seq          integer NOT NULL,
    role         text COLLATE "C" NOT NULL CHECK (role IN ('user', 'assistant')),
    content      text NOT NULL,
    status       text COLLATE "C" NOT NULL CHECK (status IN ('streaming', 'complete', 'partial', 'failed')),
    -- Of an answer: the question, and the answer that was made anew in its place.
    reply_to     text COLLATE "C" REFERENCES messages ON DELETE CASCADE,
    replaced_by  text COLLATE "C" REFERENCES messages ON DELETE SET NULL,
    mode         text COLLATE "C",
    answered     boolean,
    citations    jsonb NOT NULL DEFAULT '[]',
    -- Passages the answer was written from: ids, offsets, scores, titles; their text is read when shown.
    sources      jsonb NOT NULL DEFAULT '[]',
    -- Their documents: what a deletion looks for. Saved before the first word.
    source_documents text[] COLLATE "C" NOT NULL DEFAULT '{}',
    trace        jsonb NOT NULL DEFAULT '[]',
    degraded     jsonb NOT NULL DEFAULT '[]',
    audit        jsonb NOT NULL DEFAULT '{}',
    usage        jsonb NOT NULL DEFAULT '{}',
    error_code   text COLLATE "C",
    -- 1 or -1, and what was said with it.
    feedback     smallint CHECK (feedback IN (-1, 1)),
    feedback_text text NOT NULL DEFAULT '',
    -- While it streams: the process says that it lives, and learns that it shall stop.
    alive_until  timestamptz,
    stop         boolean NOT NULL DEFAULT false,
    created_at   timestamptz NOT NULL DEFAULT now(),
    finished_at  timestamptz,
    UNIQUE (session_id, seq)
);

CREATE INDEX messages_documents ON messages USING gin (source_documents);
CREATE INDEX messages_replies ON messages (reply_to);
CREATE INDEX messages_replaced ON messages (replaced_by) WHERE replaced_by IS NOT NULL;
CREATE INDEX messages_feedback ON messages (finished_at) WHERE feedback IS NOT NULL;
CREATE INDEX messages_streaming ON messages (alive_until) WHERE status = 'streaming';

-- Every question that was asked, without its words: what statistics count.
CREATE TABLE questions (
    question_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT now(),
    key_id      text COLLATE "C",
    status      text COLLATE "C" NOT NULL CHECK (status IN ('complete', 'partial', 'failed')),
    answered    boolean,
    mode        text COLLATE "C",
    -- To the first word, and to the end; milliseconds.
    first_ms    real,
    total_ms    real NOT NULL
);

CREATE INDEX questions_at ON questions (at);

CREATE TABLE question_bases (
    question_id bigint NOT NULL REFERENCES questions ON DELETE CASCADE,
    base_id     text COLLATE "C" NOT NULL REFERENCES bases ON DELETE CASCADE,
    PRIMARY KEY (base_id, question_id)
);
