"""The ingest pipeline: what it is made of."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import anyio

from ragstone.errors import InvalidStage, first_error
from ragstone.ingest.identity import stages_identity
from ragstone.ingest.results import IngestEvent, IngestResult
from ragstone.ingest.run import Run
from ragstone.protocols import (
    AsyncCleaner,
    ChunkTransformer,
    Cleaner,
    Embedder,
    IngestStore,
    Loaded,
    Parser,
    Splitter,
    Unpacker,
)
from ragstone.types import DEFAULT_BASE, Blob, Document, digest


@dataclass(frozen=True, kw_only=True)
class IngestPipeline:
    """Reads blobs into a store.

    Only `embedder` and `store` are required: without `parse` files are read, and containers
    opened, by parser processes of the run's own; without `split` chunks have 300 tokens and an
    overlap of 30. The content and the identities of the stages (`ingest.identity`) make the
    revision of a document, and a document whose revision is already stored is not read
    again. `settings` stands in for the identities: it names all that changes the result.
    `parsers` blobs are parsed at once.

    With `unpack`, the members of containers (archives, mails, PDFs with files in them)
    become documents of their own, and belong to their container: its document is stored
    when they are, one that is unchanged is skipped with all of them, and members that are
    gone from a changed one are deleted. A container with members that failed for a reason
    that may pass (a parser that was killed, a missing package, a password while none was
    given: see `unlocks`) is opened again in the next run.
    """

    embedder: Embedder
    store: IngestStore
    parse: Parser | None = None
    split: Splitter | None = None
    clean: Sequence[Cleaner | AsyncCleaner] = ()
    transform: Sequence[ChunkTransformer] = ()
    unpack: Unpacker | None = None
    settings: str = ""
    parsers: int = 2
    unlocks: bool = False
    """Whether `parse` and `unpack` were given passwords."""

    def __post_init__(self) -> None:
        if self.parsers < 1:
            raise InvalidStage("ingest.parsers", value=self.parsers)
        _ = self.named  # a stage that cannot be named is refused before anything is read

    async def run(
        self,
        blobs: AsyncIterator[Loaded | Document] | Iterable[Loaded | Document] | Blob | Document,
        *,
        base_id: str = DEFAULT_BASE,
        on_event: Callable[[IngestEvent], None] | None = None,
        dry_run: bool = False,
    ) -> IngestResult:
        """Ingest one blob, several, or a stream of them into `base_id`; a Document is not parsed.

        With `dry_run` only say what would become of them: it parses and splits, since only that
        tells how much is known already; `embedded` and `tokens` are what a real run would embed.

        Raises:
            StoreError, ModelError, ProviderError: nothing more can be stored. Documents
                stored before stay, and the next run goes on after them.
        """
        if self.parse is None:
            from ragstone.parse.sandbox import ParserPool

            pool = ParserPool(workers=self.parsers)
            whole = replace(self, parse=pool, unpack=self.unpack or pool.unpack)
            try:
                return await whole.run(blobs, base_id=base_id, on_event=on_event, dry_run=dry_run)
            finally:
                with anyio.CancelScope(shield=True):
                    await pool.aclose()
        known = await self.store.revisions(
            base_id, uri=blobs.uri if isinstance(blobs, (Blob, Document)) else None
        )
        run = Run(self, self.parse, base_id=base_id, known=known, on_event=on_event, dry_run=dry_run)
        try:
            await run.go(blobs if isinstance(blobs, AsyncIterator) else _stream(blobs))
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        return run.result()

    def splitter(self) -> Splitter:
        """`split`, or what stands in for it."""
        if self.split is not None:
            return self.split
        from ragstone.split import RecursiveSplitter

        return RecursiveSplitter(max_size=300, overlap=30, tokenizer=self.embedder.tokenizer)

    def revision(self, content_hash: str) -> str:
        """What a document made of this content (`Blob.content_hash`) has as its revision."""
        # Not the model: a base has one, and another is given to all of its documents at once.
        return digest(content_hash, self.named)

    @property
    def named(self) -> str:
        """`settings`, else what names the stages; "" of the stages that stand in for none."""
        if self.settings:
            return self.settings
        split = () if self.split is None else (self.split,)
        parts = (stages_identity(stages) for stages in (self.clean, split, self.transform))
        return "/".join(parts).strip("/")


async def _stream(
    blobs: Iterable[Loaded | Document] | Blob | Document,
) -> AsyncGenerator[Loaded | Document, None]:
    for item in (blobs,) if isinstance(blobs, (Blob, Document)) else blobs:
        yield item
