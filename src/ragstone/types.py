"""The values that travel along the two paths. All are frozen; derive with `dataclasses.replace`.

    ingest:  Blob -> Document -> Chunk (+ Vectors)
    query:   Query -> Hit -> Prompt -> Delta -> Answer

Offsets (`start`, `end`) are half-open and count code points of `Document.text`, the
text after decoding and cleaning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from ragstone.errors import InvalidQuery, RagstoneError
from ragstone.filters import Filter, both
from ragstone.messages import Language, render
from ragstone.metadata import MAX_TOP_K as MAX_TOP_K
from ragstone.metadata import Fixed, Metadata, checked, checked_texts
from ragstone.metadata import checked_top_k as checked_top_k
from ragstone.metadata import digest as digest
from ragstone.place import HeadingSpan, Layout, PageSpan, Place, RowSpan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Role: TypeAlias = Literal["system", "user", "assistant"]
AnswerMode: TypeAlias = Literal["model", "extractive"]

DEFAULT_BASE = "default"
MAX_QUERY_LENGTH = 8_000
MEMBER_MARK = "!/"
"""Between the uri of a container (archive, mail, PDF) and the path of a member in it."""


# --- ingest path -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """Bytes as a loader found them, with where they came from.

    `uri` identifies the source (`file:///...`, `https://...`); `name` is the file name a
    person reads; `media_type` is a hint only, parsers decide by content.
    """

    uri: str
    name: str
    data: bytes = field(repr=False)
    media_type: str = ""
    modified: datetime | None = None
    metadata: Metadata = field(default_factory=dict[str, "str"])

    @property
    def content_hash(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFailure:
    """A source that a loader met and could not read; the stream goes on after it."""

    uri: str
    name: str
    error: RagstoneError


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """A source that says it is as it was when its document was stored; its content was not sent."""

    uri: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something a reader should know about a document: a message key with its values.

    Stored as such, so that it can be shown in either language.
    """

    key: str
    values: Mapping[str, str | int] = field(default_factory=dict[str, "str | int"])

    def text(self, language: Language) -> str:
        return render(self.key, language, **self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Where `text[start:end]` stands on page `page` (from 1): a block of text or a table row.

    In PDF points (1/72 inch) of the page as it is shown, from its top left corner:
    `x0`, `y0` is the upper left, `x1`, `y1` the lower right.
    """

    page: int
    start: int
    end: int
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A whole text with its structure: one file, one page of the web, one string.

    A document is identified by its base and source uri; without a uri, by its content.
    `revision` names the content and the settings it was read with: equal revisions need
    no new work. `boxes` says where blocks of the text stand on the page, in the order of
    the text, where the format knows it; `rows` which rows of a spreadsheet they are.
    """

    text: str = field(repr=False)
    uri: str = ""
    title: str = ""
    base_id: str = DEFAULT_BASE
    document_id: str = ""
    media_type: str = "text/plain"
    revision: str = ""
    pages: tuple[PageSpan, ...] = field(default=(), repr=False)
    headings: tuple[HeadingSpan, ...] = field(default=(), repr=False)
    metadata: Metadata = field(default_factory=dict[str, "str"])
    warnings: tuple[Remark, ...] = ()
    boxes: tuple[Box, ...] = field(default=(), repr=False)
    rows: tuple[RowSpan, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", checked(self.metadata))
        if not self.uri:
            content_hash = hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest()
            object.__setattr__(self, "uri", f"sha256:{content_hash}")
        if not self.document_id:
            object.__setattr__(self, "document_id", digest(self.base_id, self.uri))
        if not self.revision:
            object.__setattr__(self, "revision", digest(self.text))

    @property
    def layout(self) -> Layout:
        """What says where its text stands for people."""
        return Layout(media_type=self.media_type, pages=self.pages, headings=self.headings, rows=self.rows)

    def in_base(self, base_id: str) -> Document:
        """The same document, identified within another base."""
        return replace(self, base_id=base_id, document_id="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A slice of a document: `text == document.text[start:end]`, always.

    Whatever is added (title, headings, a repeated table header) is `context`: embedded,
    indexed and prompted in front of the text, without offsets. `index` counts 0, 1, 2,
    ... within the document. `parent` is the span of the longer passage that this chunk
    stands for, where it was cut to be found only. No search finds one that is not
    `enabled` (`Store.set_enabled`). `layout` is filled in by the store that a chunk is read from.
    """

    text: str
    document_id: str
    index: int
    start: int
    end: int
    chunk_id: str = ""
    context: str = ""
    page: int | None = None
    headings: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict[str, "str"])
    parent: tuple[int, int] | None = None
    enabled: bool = True
    layout: Layout = field(default=Layout(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.chunk_id:
            object.__setattr__(self, "chunk_id", digest(self.document_id, str(self.index), self.text))

    @property
    def embedding_text(self) -> str:
        """The exact text that is embedded and indexed: context, then text."""
        return f"{self.context}\n{self.text}" if self.context else self.text

    @property
    def embedding_hash(self) -> str:
        """Names `embedding_text`; equal hashes share one embedding per model."""
        return digest(self.embedding_text, size=16)

    @property
    def page_end(self) -> int | None:
        """The page it ends on, that of its beginning where nothing else is known."""
        return self.place().page_end

    def place(self, start: int | None = None, end: int | None = None) -> Place:
        """Where `document.text[start:end]`, a part of this chunk, stands; all of it by default."""
        return self.layout.place(
            self.start if start is None else start,
            self.end if end is None else end,
            text=self.text,
            offset=self.start,
            page=self.page,
            headings=self.headings,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vectors:
    """Embeddings that know their model. `values` is float32 of shape (texts, dimension).

    `token_vectors` has one array for each text, or none where the model gives none: of
    passages what `late.passage_tokens` keeps, of questions `late.question_tokens`.
    """

    model: str
    values: NDArray[np.float32] = field(repr=False)
    tokens: int = 0
    token_vectors: Sequence[NDArray[np.generic]] = field(default=(), repr=False)

    @property
    def dimension(self) -> int:
        return int(self.values.shape[1])

    def __len__(self) -> int:
        return int(self.values.shape[0])


# --- query path --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    role: Role
    content: str

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise InvalidQuery("core.role", role=repr(self.role)[:80], roles=", ".join(get_args(Role)))
        if not isinstance(self.content, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidQuery("core.content", value=repr(self.content)[:80])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a search may see. `bases=None` is every base; an empty tuple is nothing."""

    bases: tuple[str, ...] | None = None
    filter: Filter | None = None

    def __post_init__(self) -> None:
        if self.bases is not None:
            object.__setattr__(self, "bases", tuple(checked_texts(self.bases, "bases")))

    def __and__(self, other: Scope) -> Scope:
        """What both allow; never more than either."""
        if self.bases is None or other.bases is None:
            bases = other.bases if self.bases is None else self.bases
        else:
            bases = tuple(base for base in self.bases if base in other.bases)
        return Scope(bases=bases, filter=both(self.filter, other.filter))


@dataclass(frozen=True, slots=True)
class Query:
    """A question with what is known about it.

    `history` holds earlier messages, oldest first, never the question itself; `context`
    is free for the caller's own stages; `scope` narrows what may be searched.

    Raises:
        InvalidQuery: blank or over 8,000 characters, a field that is None, or a history with an
            item that is no message.
    """

    text: str
    _: KW_ONLY
    history: tuple[Message, ...] = ()
    context: Mapping[str, object] = field(default_factory=dict[str, object])
    scope: Scope = field(default_factory=Scope)

    def __post_init__(self) -> None:
        for name in ("text", "history", "context", "scope"):
            if getattr(self, name) is None:
                raise InvalidQuery("core.query_missing", name=name)
        if not self.text.strip():
            raise InvalidQuery("core.query_blank")
        if len(self.text) > MAX_QUERY_LENGTH:
            raise InvalidQuery("core.query_long", length=len(self.text), limit=MAX_QUERY_LENGTH)
        object.__setattr__(self, "context", Fixed(self.context))
        object.__setattr__(self, "history", tuple(self.history))
        for index, message in enumerate(self.history):
            if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidQuery("core.query_history", index=index, value=repr(message)[:80])


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What one stage thought of a hit.

    `scale` names what `value` means (`cosine`, `text`, `hybrid`, `rrf`,
    `rerank:<model>`): values of two scales are never compared. `rank` counts from 1.
    """

    stage: str
    scale: str
    value: float
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A chunk that a search found, with its document's title and uri and every stage's score."""

    chunk: Chunk
    uri: str
    title: str
    base_id: str = DEFAULT_BASE
    scores: tuple[Score, ...] = ()

    @property
    def page(self) -> int | None:
        """The page it begins on."""
        return self.chunk.page

    @property
    def page_end(self) -> int | None:
        """The page it ends on."""
        return self.chunk.page_end

    @property
    def score(self) -> float:
        """The latest stage's score; 0.0 when no stage scored the hit."""
        return self.scores[-1].value if self.scores else 0.0

    def on(self, scale: str) -> float | None:
        """The latest score on `scale`, or None."""
        return next((score.value for score in reversed(self.scores) if score.scale == scale), None)

    def scored(self, *scores: Score) -> Hit:
        return self.with_scores((*self.scores, *scores))

    def with_scores(self, scores: tuple[Score, ...]) -> Hit:
        """The hit with these scores only."""
        # Field by field: `dataclasses.replace` takes three times as long, for every hit of every stage.
        return Hit(chunk=self.chunk, uri=self.uri, title=self.title, base_id=self.base_id, scores=scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a generator receives: the messages, and the passages numbered [1], [2], ... in them."""

    query: Query
    messages: tuple[Message, ...]
    passages: tuple[Hit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens that models counted."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """Marker [n] of an answer: `quote` is `text[start:end]` of the document and begins on `page`."""

    n: int
    chunk_id: str
    document_id: str
    uri: str
    title: str
    page: int | None
    start: int
    end: int
    quote: str
    place: Place = field(default_factory=Place)

    def __post_init__(self) -> None:
        if self.page is not None and self.place.page is None:
            object.__setattr__(self, "place", Place(page=self.page, page_end=self.page))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one stage did: its name, wall seconds, and facts about it."""

    stage: str
    seconds: float
    detail: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A finished answer.

    `answered` is False for a refusal. `partial` is true when a limit on its length cut it off.
    `hits` are the passages the generator saw,
    `retrieved` those found before selection. `degraded` names each step that could not
    be taken as configured (`chat_failed`, `embedder_failed`, ...).
    """

    text: str
    mode: AnswerMode
    answered: bool
    partial: bool = False
    citations: tuple[Citation, ...] = ()
    hits: tuple[Hit, ...] = ()
    retrieved: tuple[Hit, ...] = ()
    degraded: tuple[str, ...] = ()
    audit: Mapping[str, object] = field(default_factory=dict[str, object])
    usage: Usage = field(default_factory=Usage)
    trace: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search without an answer found: `hits` after selection, `retrieved` before it."""

    hits: tuple[Hit, ...]
    retrieved: tuple[Hit, ...] = ()
    degraded: tuple[str, ...] = ()
    trace: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDone:
    """Stream event: a stage of the query path has ended."""

    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Stream event: the passages the answer will be written from."""

    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Stream event: the next piece of the answer's text.

    The last one may carry the usage, and `cut`: a limit on its length ended the answer.
    """

    text: str
    usage: Usage | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Stream event: the finished answer, always the last event.

    `answer.text` is the text to keep: citation repair may have changed what the deltas said.
    """

    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Stream event: the answer could not be finished; in place of `Done`, and the last event.

    `text` is what had been said before; `error` says why and what to do. Streams for a
    user interface end so (`Assistant.stream`); `QueryPipeline.stream` raises.
    """

    error: RagstoneError
    text: str = ""


Event: TypeAlias = StageDone | Sources | Delta | Done | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionReport:
    """What a deletion removed: rows by table."""

    document_ids: tuple[str, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict[str, int])

    def __add__(self, other: DeletionReport) -> DeletionReport:
        tables = dict.fromkeys((*self.rows, *other.rows))
        return DeletionReport(
            document_ids=(*self.document_ids, *other.document_ids),
            rows={table: self.rows.get(table, 0) + other.rows.get(table, 0) for table in tables},
        )
