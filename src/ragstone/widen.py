"""Selectors that ask the store for what stands around a hit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from anyio import to_thread

from ragstone.errors import InvalidStage
from ragstone.filters import matches
from ragstone.place import Layouts
from ragstone.protocols import Store
from ragstone.trace import note
from ragstone.types import Document, Hit, Query, Scope

MAX_NEIGHBOURS = 20


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Adds up to `n` chunks before and after each hit, in the order of its document.

    A chunk is given once, at the first place it belongs to; hits keep their scores, the
    added chunks have none. What is disabled, or what `scope` or the question's own scope does not
    allow, is never added. Keep it behind the stages that rank.

    Raises:
        InvalidStage: `n` outside 1 to 20. StoreError: the store cannot be asked.
    """

    store: Store
    n: int = 1
    scope: Scope = field(default_factory=Scope)

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or not 1 <= self.n <= MAX_NEIGHBOURS:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidStage("select.neighbours", value=self.n, limit=MAX_NEIGHBOURS)

    async def __call__(self, query: Query, hits: list[Hit]) -> list[Hit]:
        scope = self.scope & query.scope
        own = {hit.chunk.chunk_id: hit for hit in hits}
        given: dict[str, Hit] = {}
        for hit in hits:
            # Empty where the document was replaced since then: the hit stays alone.
            for near in await self.store.neighbours(hit.chunk.chunk_id, self.n):
                chunk_id = near.chunk.chunk_id
                if chunk_id in own or _visible(near, scope):
                    given.setdefault(chunk_id, own.get(chunk_id, near))
            given.setdefault(hit.chunk.chunk_id, hit)
        note(added=len(given) - len(own))
        return list(given.values())


def _visible(hit: Hit, scope: Scope) -> bool:
    if not hit.chunk.enabled or (scope.bases is not None and hit.base_id not in scope.bases):
        return False
    return scope.filter is None or matches(scope.filter, hit.chunk.metadata)


@dataclass(frozen=True, slots=True)
class Parents:
    """Puts the parent passage in the place of a chunk that was cut to be found (`Chunk.parent`).

    The first of several children of one parent stays, with its scores, id and the line of
    its context; text, offsets and page are the parent's. A chunk without a parent, or
    whose document has changed since it was found, stays as it is.
    """

    store: Store

    async def __call__(self, query: Query, hits: list[Hit]) -> list[Hit]:
        texts = _Texts(self.store)
        kept: dict[object, Hit] = {}
        for hit in hits:
            chunk = hit.chunk
            if chunk.parent is None:
                kept.setdefault(chunk.chunk_id, hit)
            elif (key := (chunk.document_id, chunk.parent)) not in kept:
                kept[key] = await texts.widened(hit, *chunk.parent)
        return list(kept.values())


class _Texts:
    """The documents of one selection, each read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._documents: dict[str, tuple[Document, Layouts] | None] = {}

    async def widened(self, hit: Hit, start: int, end: int) -> Hit:
        """`hit` with the text from `start` to `end` of its document; itself if that has changed."""
        chunk = hit.chunk
        if chunk.document_id not in self._documents:
            self._documents[chunk.document_id] = await self._read(chunk.document_id)
        if (held := self._documents[chunk.document_id]) is None:
            return hit
        document, layouts = held
        if document.text[chunk.start : chunk.end] != chunk.text:
            return hit
        layout = layouts.of(start, end)
        # The table header of a child need not be that of the first row of the parent.
        context = chunk.context.partition("\n")[0]
        wide = replace(
            chunk,
            text=document.text[start:end],
            start=start,
            end=end,
            page=layout.page(start) or chunk.page,
            context=context,
            parent=None,
            layout=layout,
        )
        return replace(hit, chunk=wide)

    async def _read(self, document_id: str) -> tuple[Document, Layouts] | None:
        document = await self._store.document(document_id)
        if document is None:
            return None
        return document, await to_thread.run_sync(Layouts, document.text, document.layout)
