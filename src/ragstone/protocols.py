"""Every seam of Ragstone. To read this file is to read the architecture.

    ingest:  load -> parse -> clean -> split -> embed -> store
    query:   transform -> expand -> route -> retrieve -> fuse -> rerank -> select
             -> augment -> generate -> cite

*Adapters* hold a connection or a model and have `aclose()`. *Stages* are async callables
from value to value: a plain `async def` is a stage. What never waits (split, fuse, cite,
filters) is a plain function.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ragstone.types import (
    Blob,
    Chunk,
    DeletionReport,
    Delta,
    Document,
    Event,
    Hit,
    LoadFailure,
    Message,
    Prompt,
    Query,
    Scope,
    Unchanged,
    Vectors,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# --- ingest path -------------------------------------------------------------------

Loaded: TypeAlias = Blob | LoadFailure | Unchanged
"""What a loader gives for one source: its bytes, why not, or that nothing has changed."""

Loader: TypeAlias = Callable[[str], AsyncIterator[Loaded]]
"""A source (path or address) to a stream of blobs; what cannot be read is a LoadFailure in it."""

Parser: TypeAlias = Callable[[Blob], Awaitable[Document]]
"""Bytes to text with structure. Raises ContentError when the blob cannot be read."""

Unpacker: TypeAlias = Callable[[Blob], AsyncGenerator[Blob | LoadFailure, None]]
"""The members of a container, each with the uri `<container>!/<path>`; nothing for other blobs.
Raises ContentError when members may be missing."""

Cleaner: TypeAlias = Callable[[Document], Document | None]
"""Changes a document before it is split; None drops it. Offsets of spans must follow."""

AsyncCleaner: TypeAlias = Callable[[Document], Awaitable[Document | None]]
"""A cleaner that waits, such as one that asks a model."""

Splitter: TypeAlias = Callable[[Document], list[Chunk]]
"""Cuts a document into chunks with exact offsets; `index` from 0 without gaps."""

ChunkTransformer: TypeAlias = Callable[[Chunk], Chunk | None]
"""Adds context or metadata to a chunk; None drops it. Never changes its text."""


class Tokenizer(Protocol):
    """Counts as the embedding model counts, without special tokens and prefix."""

    def count(self, text: str) -> int: ...

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """(start, end) of each token in code points of `text`, in order."""
        ...


class Embedder(Protocol):
    """Texts to vectors. L2-normalised; blank text is a zero vector; any number of texts a call."""

    @property
    def identity(self) -> str:
        """Names model, weights and preparation, such as `multilingual-e5-small/int8/2`."""
        ...

    @property
    def dimension(self) -> int: ...

    @property
    def max_tokens(self) -> int:
        """The longest text `embed_documents` accepts, as `tokenizer.count` counts."""
        ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Questions to vectors; a question beyond the model's length is cut at its end."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Passages to vectors, in order. Raises TextTooLong, naming the text, beyond `max_tokens`."""
        ...

    async def aclose(self) -> None: ...


class IngestStore(Protocol):
    """The part of a Store that ingestion needs."""

    async def replace(self, document: Document, chunks: Sequence[Chunk], vectors: Vectors) -> bool:
        """Put the document in place of its earlier version, atomically.

        False when this revision is already stored: nothing was written. Raises
        ModelMismatch when the base holds vectors of another model, and
        InvalidMetadata, never half-written.
        """
        ...

    async def delete(self, document_ids: Sequence[str]) -> DeletionReport:
        """Remove documents with all that belongs to them; unknown ids are skipped."""
        ...

    async def revisions(self, base_id: str, *, uri: str | None = None) -> Mapping[str, str]:
        """uri -> revision of every document in the base; with `uri` of that one and its members."""
        ...

    async def known_vectors(self, model: str, hashes: Sequence[str]) -> Mapping[str, NDArray[np.float32]]:
        """Embeddings already stored for these `Chunk.embedding_hash` values."""
        ...

    async def token_vectors(self, model: str, hashes: Sequence[str]) -> Mapping[str, NDArray[np.uint8]]:
        """What is stored of passages' tokens (`late.passage_tokens`), by `Chunk.embedding_hash`."""
        ...


class Store(IngestStore, Protocol):
    """Documents, chunks, vectors and full text. A document is there whole or not at all.

    Chunks are read with the part of the document's layout that touches them (`place.Layouts`).
    """

    async def search_vector(self, vectors: Vectors, *, scope: Scope, top_k: int) -> list[Hit]:
        """Nearest chunks to the one vector in `vectors`, best first, on the scale `cosine`."""
        ...

    async def search_text(self, text: str, *, scope: Scope, top_k: int) -> list[Hit]:
        """Chunks that share terms with `text`, best first, on the scale `text`; none scores 0."""
        ...

    async def search_hybrid(
        self,
        text: str,
        vectors: Vectors,
        *,
        scope: Scope,
        top_k: int,
        fuse: Fuser,
        candidates: int,
        compared: int = 0,
    ) -> list[Hit]:
        """The best `top_k` of both rankings of one question, all seen at one moment.

        `fuse` gets (vector, text), each of up to `candidates` hits that have ids, index and
        scores only: passages are read of the best alone. Where question and passages have
        token vectors, the best `compared` of the scale `hybrid` (no fewer than `top_k`) are
        then put in order by `fuse.by_tokens`, and the others are left out.
        """
        ...

    async def fetch(self, chunk_ids: Sequence[str]) -> list[Hit]:
        """The chunks with these ids, in this order; missing ones are left out."""
        ...

    async def neighbours(self, chunk_id: str, n: int) -> list[Hit]:
        """Up to `n` chunks before and after this one, in document order, itself included."""
        ...

    async def document(self, document_id: str) -> Document | None: ...

    async def set_enabled(self, chunk_ids: Sequence[str], enabled: bool) -> int:
        """Let searches find these chunks or not; how many of them there are.

        A disabled chunk is kept, and `fetch` and `neighbours` show it with `Chunk.enabled`
        false. Chunks of one text in one document go together, and what a later version of
        the document still says stays disabled.
        """
        ...

    async def count(self, scope: Scope) -> int:
        """How many chunks a search with this scope may find."""
        ...

    async def aclose(self) -> None: ...


class VectorIndex(Protocol):
    """Nearest vectors, outside the store and beneath it: it proposes ids, the store judges them.

    A copy that may be lost, late or incomplete; it is filled again from the store. One
    `collection` holds vectors of one embedding model; the first `put` makes it and sets
    its dimension. Vectors have length 1, or 0, which may be left out. Unreachable, every
    call raises StoreUnavailable within seconds.
    """

    @property
    def identity(self) -> str:
        """Kind and address, without secrets, such as `redis:localhost:6379/0`."""
        ...

    async def put(
        self,
        collection: str,
        ids: Sequence[str],
        vectors: NDArray[np.float32],
        *,
        bases: Sequence[str],
    ) -> None:
        """Add vectors with the base of each, in place of those of the same ids; twice is as once.

        Raises ModelMismatch for another dimension than the collection's, for another number
        of vectors than ids, and for NaN.
        """
        ...

    async def drop(self, collection: str, ids: Sequence[str]) -> None:
        """Remove vectors; ids and collections that are not there are passed over."""
        ...

    async def search(
        self, collection: str, vector: NDArray[np.float32], *, bases: Sequence[str] | None, top_k: int
    ) -> list[str]:
        """Up to `top_k` (to 10,000) ids by falling cosine, only of `bases` unless that is None.

        Nothing when the collection does not exist. Raises ModelMismatch as `put` does.
        """
        ...

    async def clear(self, collection: str) -> None:
        """Remove a collection with all that is in it."""
        ...

    async def aclose(self) -> None: ...


# --- query path --------------------------------------------------------------------

Transformer: TypeAlias = Callable[[Query], Awaitable[Query]]
"""Rewrites a question: a better wording, a standalone form, another language."""

Expander: TypeAlias = Callable[[Query], Awaitable[list[Query]]]
"""One question to several, the original first."""

Retriever: TypeAlias = Callable[[Query], Awaitable[list[Hit]]]
"""Finds hits, best first, within `query.scope`."""

Router: TypeAlias = Callable[[Query], Awaitable[Sequence[Retriever]]]
"""Chooses the retrievers for a question."""

Fuser: TypeAlias = Callable[[Sequence[Sequence[Hit]]], list[Hit]]
"""Several rankings to one, by chunk id; every stage's score stays on the hit."""

Selector: TypeAlias = Callable[[Query, list[Hit]], Awaitable[list[Hit]]]
"""Keeps, drops, reorders or widens hits after ranking."""

Augmenter: TypeAlias = Callable[[Query, Sequence[Hit]], Awaitable[Prompt]]
"""Question and passages to a prompt."""

Generator: TypeAlias = Callable[[Prompt], AsyncIterator[Delta]]
"""A prompt to the answer's text, piece by piece; `<no-answer/>` first when it cannot answer."""


class Answerer(Protocol):
    """Whatever answers a question as a stream of events, `Done` last; a `QueryPipeline` is one."""

    def stream(self, query: Query, /) -> AsyncGenerator[Event, None]: ...


class Memory(Protocol):
    """What was said in conversations before; each has an id, and none sees another."""

    async def messages(self, chat_id: str) -> Sequence[Message]:
        """The messages to go on from, oldest first; none of an unknown conversation."""
        ...

    async def add(self, chat_id: str, messages: Sequence[Message]) -> None:
        """Messages that belong together, a question before its answer; kept all or none."""
        ...


class Reranker(Protocol):
    """Scores passages against a question, higher is better; `nan` for one that was not judged.

    `identity` names the scale of the scores.
    """

    @property
    def identity(self) -> str: ...

    async def score(self, query: str, texts: Sequence[str]) -> list[float]: ...

    async def aclose(self) -> None: ...


class ChatModel(Protocol):
    """A language model that answers messages."""

    @property
    def identity(self) -> str: ...

    def stream(self, messages: Sequence[Message]) -> AsyncIterator[Delta]: ...

    async def complete(self, messages: Sequence[Message]) -> Delta:
        """The whole answer at once, with its usage."""
        ...

    async def aclose(self) -> None: ...
