"""Document -> Chunks with exact offsets (pure).

`recursive` packs units into chunks, `breaks` knows where a text may be cut, `sizes`
measures in tokens or characters, `context` writes the line in front of a chunk.
"""

from __future__ import annotations

from ragstone.split.context import context_of
from ragstone.split.recursive import Level, RecursiveSplitter

__all__ = ["Level", "RecursiveSplitter", "context_of"]
