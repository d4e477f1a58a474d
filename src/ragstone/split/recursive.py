"""The recursive splitter: as many whole units as fit, cut where a reader would cut."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ragstone.errors import InvalidStage
from ragstone.protocols import Tokenizer
from ragstone.sentences import Span
from ragstone.split.breaks import CHARACTER, LINE, PARAGRAPH, SECTION, SENTENCE, WORD, Breaks
from ragstone.split.context import Contexts
from ragstone.split.cutter import Cutter
from ragstone.split.places import Places
from ragstone.split.sizes import Characters, Sizes, Tokens
from ragstone.types import Chunk, Document, digest

Level: TypeAlias = Literal["section", "paragraph", "line", "sentence", "word", "character"]

RANKS: dict[Level, int] = {
    "section": SECTION,
    "paragraph": PARAGRAPH,
    "line": LINE,
    "sentence": SENTENCE,
    "word": WORD,
    "character": CHARACTER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecursiveSplitter:
    """Cuts a document at sections, paragraphs, lines, sentences, words, characters, in this order.

    `max_size` and `overlap` count tokens of `tokenizer`, or code points without one. As
    many units as fit make a chunk; a unit that does not fit is cut at its parts. A
    heading stays with the text that follows it; a row of a table and fenced code are cut
    only when they do not fit alone. The overlap repeats whole sentences from the end of
    the chunk before, as many as fit into `overlap`; words or characters where the cut was
    inside a sentence; nothing across sections. Chunks below `min_size` are joined to a
    neighbour where both fit into one.

    Chunks are trimmed slices: `chunk.text == document.text[start:end]`. Every character
    that is not white space is in one of them, none is blank, and none is over
    `max_size`, except that a single code point of more tokens than that is not divided.

    `level` is the best unit to cut at: "word" ignores sentences and paragraphs. With a
    `pattern`, a regular expression, the ends of its matches are the paragraphs.
    `context_size` limits the line of title and headings in `Chunk.context`, `header_size`
    the header of a table repeated there when a chunk begins among its rows, both in the
    same unit; 0 leaves them out. A chunk with its context is at most the sum of the
    three and a line break. 300, 30 are the sizes of LangChain4j's Easy RAG.

    Raises:
        InvalidStage: a size that is no whole number or out of range, `overlap` not below
            `max_size`, `min_size` over it, an unknown level, or a pattern that is no
            regular expression.
    """

    max_size: int = 300
    overlap: int = 30
    tokenizer: Tokenizer | None = None
    level: Level = "section"
    context_size: int = 60
    header_size: int = 80
    min_size: int = 0
    pattern: str = ""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("max_size", self.max_size, 1),
            ("overlap", self.overlap, 0),
            ("context_size", self.context_size, 0),
            ("header_size", self.header_size, 0),
            ("min_size", self.min_size, 0),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidStage("split.size", name=name, value=value, least=least)
        if self.overlap >= self.max_size:
            raise InvalidStage("split.overlap", overlap=self.overlap, max_size=self.max_size)
        if self.min_size > self.max_size:
            raise InvalidStage("split.min_size", min_size=self.min_size, max_size=self.max_size)
        if self.level not in get_args(Level):
            raise InvalidStage("split.level", value=self.level, levels=", ".join(get_args(Level)))
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise InvalidStage("split.pattern", pattern=self.pattern, reason=str(error)) from error

    @property
    def identity(self) -> str:
        """Names everything that changes the chunks, except which tokenizer it is."""
        unit = "characters" if self.tokenizer is None else "tokens"
        sizes = (self.max_size, self.overlap, self.context_size, self.header_size, self.min_size)
        name = f"recursive/3/{unit}/{'/'.join(map(str, sizes))}/{self.level}"
        return f"{name}/{digest(self.pattern, size=6)}" if self.pattern else name

    def __call__(self, document: Document) -> list[Chunk]:
        sizes = sizes_of(document.text, self.tokenizer)
        breaks = self.breaks(document)
        return chunks_of(document, self.cutter(document, sizes, breaks).spans(), self, breaks)

    def breaks(self, document: Document) -> Breaks:
        """Where this splitter may cut the document."""
        pattern = re.compile(self.pattern) if self.pattern else None
        rank = max(RANKS[self.level], PARAGRAPH) if pattern else RANKS[self.level]
        return Breaks(document, rank, pattern)

    def cutter(self, document: Document, sizes: Sizes, breaks: Breaks) -> Cutter:
        return Cutter(
            document.text,
            sizes,
            breaks,
            max_size=self.max_size,
            overlap=self.overlap,
            min_size=self.min_size,
        )


def sizes_of(text: str, tokenizer: Tokenizer | None) -> Sizes:
    return Characters(text) if tokenizer is None else Tokens(text, tokenizer)


def chunks_of(
    document: Document,
    spans: Iterable[Span],
    options: RecursiveSplitter,
    breaks: Breaks,
    parents: Iterable[Span | None] = (),
) -> list[Chunk]:
    """The spans as chunks, with page, headings, context and metadata; `parents` gives each its parent."""
    text = document.text
    places = Places(document, breaks.tables)
    contexts = Contexts(
        document, limit=options.context_size, header=options.header_size, tokenizer=options.tokenizer
    )
    above = iter(parents)
    chunks: list[Chunk] = []
    for index, (start, end) in enumerate(spans):
        headings = places.headings(start)
        chunks.append(
            Chunk(
                text=text[start:end],
                document_id=document.document_id,
                index=index,
                start=start,
                end=end,
                context=contexts.of(headings, places.table_header(start)),
                page=places.page(start),
                headings=headings,
                metadata=dict(document.metadata),
                parent=next(above, None),
            )
        )
    return chunks
