"""Parent and child chunks: small ones to be found, larger ones to be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ragstone.errors import InvalidStage
from ragstone.protocols import Tokenizer
from ragstone.sentences import Span
from ragstone.split.recursive import RecursiveSplitter, chunks_of, sizes_of
from ragstone.types import Chunk, Document


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentChildSplitter:
    """Cuts a document into parents, and each parent into the children that are indexed.

    The chunks are the children; `Chunk.parent` is the span of the parent's text, which
    `widen.Parents` puts in their place before a prompt is written. Sizes count tokens of
    `tokenizer`, or code points without one; parents do not overlap.

    800 and 100 tokens are the sizes of requirement A24.

    Raises:
        InvalidStage: sizes that cannot work, as for `RecursiveSplitter`, or `child_size`
            not below `parent_size`.
    """

    parent_size: int = 800
    child_size: int = 100
    overlap: int = 0
    tokenizer: Tokenizer | None = None
    context_size: int = 60
    header_size: int = 80
    _parent: RecursiveSplitter = field(init=False, repr=False)
    _child: RecursiveSplitter = field(init=False, repr=False)

    def __post_init__(self) -> None:
        child = RecursiveSplitter(
            max_size=self.child_size,
            overlap=self.overlap,
            tokenizer=self.tokenizer,
            context_size=self.context_size,
            header_size=self.header_size,
        )
        parent = replace(child, max_size=self.parent_size, overlap=0)
        if self.parent_size <= self.child_size:
            raise InvalidStage("split.parent", parent_size=self.parent_size, child_size=self.child_size)
        object.__setattr__(self, "_child", child)
        object.__setattr__(self, "_parent", parent)

    @property
    def identity(self) -> str:
        """Names everything that changes the chunks, except which tokenizer it is."""
        return f"parents/1/{self.parent_size}/{self._child.identity}"

    def __call__(self, document: Document) -> list[Chunk]:
        sizes = sizes_of(document.text, self.tokenizer)
        breaks = self._child.breaks(document)
        children = self._child.cutter(document, sizes, breaks)
        parents: list[Span] = []

        def spans() -> Iterator[Span]:
            for parent in self._parent.cutter(document, sizes, breaks).spans():
                for span in children.within(*parent):
                    parents.append(parent)
                    yield span

        found = list(spans())
        return chunks_of(document, found, self._child, breaks, parents)
