"""One question over the bases a caller may see, answered; with a session or without.

    question = await prepare(app, caller, "How deep is the lake?", base_ids=None)
    ending = await answer(app, question, emit)

What comes meanwhile goes to `emit`: stages, sources, deltas. The end is the returned `Ending`,
also of an answer that failed, and of one that was left it is kept. Each is counted for the
statistics, without the words of the question.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from psycopg.rows import TupleRow

from ragstone.assistant import typed_end
from ragstone.cite import cite
from ragstone.errors import (
    BaseNotFound,
    InvalidQuery,
    NotConfigured,
    RagstoneError,
    StoreError,
    StoreUnavailable,
)
from ragstone.filters import parse
from ragstone.kb import files
from ragstone.kb.base_settings import with_own
from ragstone.kb.bases import QUERIES
from ragstone.kb.bootstrap import App
from ragstone.kb.caller import Caller
from ragstone.kb.plain import plain, plain_text
from ragstone.kb.redaction import Item
from ragstone.place import Place
from ragstone.postgres.pool import Connection, Database
from ragstone.retrieve.store import SearchMode
from ragstone.types import (
    Answer,
    Citation,
    Delta,
    Done,
    Event,
    Failed,
    Hit,
    Message,
    Query,
    Scope,
    SearchResult,
    Sources,
    Step,
    checked_top_k,
)

_LOGGER = logging.getLogger(__name__)

T = TypeVar("T")
Emit: TypeAlias = Callable[[Event], Awaitable[None]]
Status: TypeAlias = Literal["complete", "partial", "failed"]

NO_NAMES: Mapping[str, str] = {}
_BASES_SEEN = QUERIES["bases_seen"]
_AGAIN_AFTER_S = (0.2, 1.0, 4.0)
"""A database that is started anew is back within seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that may be asked: its query lies within what the caller may see.

    `names` are the bases it is asked of and counts for, id to name. `least` is the score below
    which nothing is answered from; None: any.
    """

    caller: Caller
    query: Query
    names: Mapping[str, str]
    top_k: int
    least: float | None

    def with_history(self, history: Sequence[Message]) -> Question:
        return replace(self, query=replace(self.query, history=tuple(history)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an answer ended and what there is of it.

    `complete`; `partial` with what had been said when it was stopped, left or failed;
    `failed` before its first word. `citations` and `sources` are as they are stored.
    """

    status: Status
    text: str
    mode: str | None = None
    answered: bool | None = None
    citations: list[Item] = field(default_factory=list[Item])
    sources: list[Item] = field(default_factory=list[Item])
    trace: list[Item] = field(default_factory=list[Item])
    degraded: list[str] = field(default_factory=list[str])
    audit: Item = field(default_factory=dict[str, object])
    usage: Item = field(default_factory=dict[str, object])
    error: RagstoneError | None = None
    error_code: str | None = None
    first_ms: float | None = None
    total_ms: float = 0.0


async def prepare(
    app: App,
    caller: Caller,
    text: str,
    *,
    base_ids: Sequence[str] | None,
    filter: str | None = None,
    top_k: int | None = None,
) -> Question:
    """The question, checked; `base_ids` None is every base that the caller may see.

    What is left out is as the settings say, of one base its own.

    Raises:
        InvalidQuery: a blank or over-long question, no base, a wrong top-k.
        BaseNotFound: a base that is not there, or outside of what the caller may see.
        InvalidFilter: says where.
    """
    if base_ids is not None and not base_ids:
        raise InvalidQuery("session.no_bases")
    if top_k is not None:
        checked_top_k(top_k)
    query = Query(plain_text(text))
    tree = parse(filter) if filter else None
    seen = await _bases_seen(app, caller)
    names = {base_id: name for base_id, (name, _) in seen.items()}
    if base_ids is not None:
        check_bases(base_ids, names)
        names = {base_id: names[base_id] for base_id in base_ids}
    settings = app.settings
    if len(names) == 1 and (own := seen[next(iter(names))][1]):
        settings = with_own(settings, own)
    scope = caller.scope & Scope(bases=None if base_ids is None else tuple(names), filter=tree)
    return Question(
        caller=caller,
        query=replace(query, scope=scope),
        names=names,
        top_k=settings.top_k if top_k is None else top_k,
        least=settings.min_score,
    )


async def visible_bases(app: App, caller: Caller) -> dict[str, str]:
    """Base id to name."""
    return {base_id: name for base_id, (name, _) in (await _bases_seen(app, caller)).items()}


async def _bases_seen(app: App, caller: Caller) -> dict[str, tuple[str, Item]]:
    """Base id to name and own settings."""
    values = {"bases": None if caller.bases is None else sorted(caller.bases)}

    async def read(connection: Connection) -> list[TupleRow]:
        return await (await connection.execute(_BASES_SEEN, values)).fetchall()

    # In front of every search: as few round trips as it can be.
    rows = await (await app.database()).run_retrying(read)
    return {base_id: (name, own) for base_id, name, own in rows}


def check_bases(base_ids: Sequence[str], names: Mapping[str, str]) -> None:
    """Raises BaseNotFound for the first that is not among `names`."""
    for base_id in base_ids:
        if base_id not in names:
            raise BaseNotFound("access.base", base_id=base_id)


async def search(
    app: App,
    question: Question,
    *,
    mode: SearchMode = "hybrid",
    min_score: float | None = None,
    rerank: bool | None = None,
) -> SearchResult:
    """The best passages; `min_score` is on the scale of the mode's scores.

    Raises:
        InvalidQuery: a min-score that the mode cannot have. StoreError: nothing can be searched.
        NotConfigured: `rerank` without a reranker in the settings.
    """
    if rerank and not app.settings.rerank_kind:
        raise NotConfigured("kb.no_reranker")
    pipeline = await app.search(mode, question.top_k, min_score, rerank=rerank is not False)
    return await pipeline.search(question.query)


async def answer(app: App, question: Question, emit: Emit) -> Ending:
    """Answer a question that belongs to no session, and count it where that can be written.

    Raises nothing of ours: `Ending.error` has it.
    """
    answering = Answering(app, question)
    database = await app.database()
    try:
        await answering.run(emit)
    finally:
        ending = await answering.ending()
        with anyio.CancelScope(shield=True):
            try:
                await insisting(database, lambda connection: count(connection, question, ending))
            except StoreError as error:
                _LOGGER.warning("question not counted", extra={"code": error.code})
    return ending


class Answering:
    """An answer that is being written: what there is of it at any moment."""

    def __init__(self, app: App, question: Question) -> None:
        self._app = app
        self._question = question
        self._said: list[str] = []
        self._answer: Answer | None = None
        self._error: RagstoneError | None = None
        self._left = False
        self._started = time.perf_counter()
        self._first_ms: float | None = None
        self._hits: tuple[Hit, ...] = ()
        self._files: Mapping[str, str] = {}
        self._steps: list[Step] = []
        self.mode: str | None = None

    @property
    def text(self) -> str:
        return "".join(self._said)

    @property
    def sources(self) -> list[Item]:
        return [source_item(n, hit, self._files) for n, hit in enumerate(self._hits, 1)]

    async def run(self, emit: Emit) -> None:
        """Write until the end; `emit` gets each event but the last. An error of ours is kept, not raised."""
        try:
            pipeline = await self._app.answer(self._question.top_k, min_score=self._question.least)
            self.mode = "extractive" if await self._app.chat() is None else "model"
            async with aclosing(typed_end(pipeline.stream(self._question.query))) as events:
                async for event in events:
                    if (event := self._noted(event)) is not None:
                        if isinstance(event, Sources):
                            self._files = await file_names(self._app, event.hits)
                        await emit(event)
        except RagstoneError as error:  # a part of the pipeline cannot be made
            self._error = error
        except anyio.get_cancelled_exc_class():
            self._left = True
            raise

    def _noted(self, event: Event) -> Event | None:
        """The event as it may be passed on; None of the last one."""
        match event:
            case Delta(text=text):
                text = plain_text(text)
                if text and self._first_ms is None:
                    self._first_ms = self._elapsed()
                self._said.append(text)
                return Delta(text=text) if text else None
            case Done(answer=answer):
                self._answer, self.mode = answer, answer.mode
                return None
            case Failed(error=error):
                self._error = error
                return None
            case Sources(hits=hits):
                self._hits = hits
            case _:
                self._steps.append(event.step)
        return event

    def _elapsed(self) -> float:
        return (time.perf_counter() - self._started) * 1_000

    async def ending(self) -> Ending:
        """What there is: the whole answer, or what was said until now. Runs to its end when cancelled."""
        with anyio.CancelScope(shield=True):
            return await self._ending()
        raise AssertionError("nothing ends what is shielded")

    async def _ending(self) -> Ending:
        if self._answer is not None:
            return self._whole(self._answer)
        error_code = None if self._left else "session.internal"
        if self._error is not None:
            error_code = self._error.code
        # Its markers were checked as it was streamed.
        cited = await anyio.to_thread.run_sync(cite, self.text, self._hits)
        return Ending(
            status="partial" if self.text or self._left else "failed",
            text=self.text,
            mode=self.mode,
            citations=[citation_item(citation, self._hits, self._files) for citation in cited.citations],
            sources=self.sources,
            trace=_trace(self._steps),
            error=self._error,
            error_code=error_code,
            first_ms=self._first_ms,
            total_ms=self._elapsed(),
        )

    def _whole(self, answer: Answer) -> Ending:
        return Ending(
            status="partial" if answer.partial else "complete",
            text=plain_text(answer.text),
            mode=answer.mode,
            answered=answer.answered,
            citations=[citation_item(citation, answer.hits, self._files) for citation in answer.citations],
            sources=[source_item(n, hit, self._files) for n, hit in enumerate(answer.hits, 1)],
            trace=_trace(answer.trace),
            degraded=list(answer.degraded),
            audit=dict(answer.audit),
            usage={
                "input_tokens": answer.usage.input_tokens,
                "output_tokens": answer.usage.output_tokens,
            },
            first_ms=self._first_ms,
            total_ms=self._elapsed(),
        )


async def file_names(app: App, hits: Sequence[Hit]) -> dict[str, str]:
    """What people know the documents of these passages by."""
    return await files.names(await app.database(), {hit.chunk.document_id: hit.uri for hit in hits})


def source_item(n: int, hit: Hit, files: Mapping[str, str] = NO_NAMES) -> Item:
    """A passage without its text: where it is, and what was thought of it."""
    chunk = hit.chunk
    return {
        "n": n,
        "chunk_id": chunk.chunk_id,
        "document_id": chunk.document_id,
        "base_id": hit.base_id,
        "title": hit.title,
        "name": files.get(chunk.document_id, ""),
        "uri": hit.uri,
        **place_item(chunk.place(), chunk.page),
        "start": chunk.start,
        "end": chunk.end,
        # The latest value where two stages share a scale.
        "scores": {score.scale: score.value for score in hit.scores},
    }


def place_item(place: Place, page: int | None) -> Item:
    return {"page": page, "page_end": place.page_end or page, "place": plain(asdict(place))}


def citation_item(citation: Citation, hits: Sequence[Hit], files: Mapping[str, str]) -> Item:
    return {
        "n": citation.n,
        "chunk_id": citation.chunk_id,
        "document_id": citation.document_id,
        "base_id": hits[citation.n - 1].base_id,
        "title": citation.title,
        "name": files.get(citation.document_id, ""),
        "uri": citation.uri,
        **place_item(citation.place, citation.page),
        "start": citation.start,
        "end": citation.end,
        "quote": citation.quote,
    }


def _trace(steps: Sequence[Step]) -> list[Item]:
    return [{"stage": step.stage, "seconds": step.seconds, "detail": plain(step.detail)} for step in steps]


async def count(connection: Connection, question: Question, ending: Ending) -> None:
    """One question more of each base (row A89)."""
    values = {
        "key_id": question.caller.key_id,
        "status": ending.status,
        "answered": ending.answered,
        "mode": ending.mode,
        "first_ms": ending.first_ms,
        "total_ms": ending.total_ms,
    }
    row = await (await connection.execute(QUERIES["insert_asked"], values)).fetchone()
    assert row is not None
    await connection.execute(
        QUERIES["insert_asked_bases"], {"question_id": row[0], "base_ids": list(question.names)}
    )


async def insisting(database: Database, work: Callable[[Connection], Awaitable[T]]) -> T:
    """`work` in a transaction, tried again while the database is away for some seconds."""
    for delay in _AGAIN_AFTER_S:
        try:
            async with database.transaction() as connection:
                return await work(connection)
        except StoreUnavailable:
            await anyio.sleep(delay)
    async with database.transaction() as connection:
        return await work(connection)
