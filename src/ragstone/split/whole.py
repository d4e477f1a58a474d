"""A document that stays in one piece."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.protocols import Tokenizer
from ragstone.split.context import Contexts
from ragstone.split.places import Places
from ragstone.types import Chunk, Document


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeDocument:
    """Makes one chunk of a document, whatever its length; none of a blank one.

    For texts that are known to be short: a text over the embedding model's length is
    refused when it is embedded. `context_size` limits the title in front of it, in tokens
    of `tokenizer`, or code points without one.
    """

    tokenizer: Tokenizer | None = None
    context_size: int = 60

    @property
    def identity(self) -> str:
        """Names everything that changes the chunk, except which tokenizer it is."""
        unit = "characters" if self.tokenizer is None else "tokens"
        return f"whole/1/{unit}/{self.context_size}"

    def __call__(self, document: Document) -> list[Chunk]:
        text = document.text.strip()
        if not text:
            return []
        start = len(document.text) - len(document.text.lstrip())
        contexts = Contexts(document, limit=self.context_size, header=0, tokenizer=self.tokenizer)
        return [
            Chunk(
                text=text,
                document_id=document.document_id,
                index=0,
                start=start,
                end=start + len(text),
                context=contexts.of((), ""),
                page=Places(document).page(start),
                metadata=dict(document.metadata),
            )
        ]
