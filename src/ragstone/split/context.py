"""What stands in front of a chunk: the title of its document and the headings above it (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from ragstone.protocols import Tokenizer
from ragstone.types import Document

_BETWEEN = " > "
_CUT = "…"


def context_of(title: str, headings: Sequence[str], *, limit: int, tokenizer: Tokenizer | None = None) -> str:
    """`Title > Section > Subsection`, of at most `limit` tokens (characters without a tokenizer).

    A first heading that repeats the title is written once. Over the limit the outer
    headings go first; then title and last heading are shortened.
    """
    parts = [" ".join(part.split()) for part in (title, *headings)]
    parts = [part for part in parts if part]
    if len(parts) > 1 and parts[0].casefold() == parts[1].casefold():
        del parts[0]
    while len(parts) > 2 and _size(_BETWEEN.join(parts), tokenizer) > limit:
        del parts[1]
    line = _BETWEEN.join(parts)
    if _size(line, tokenizer) <= limit or len(parts) < 2:
        return _shortened(line, limit, tokenizer)
    nearest = _shortened(parts[1], limit // 2, tokenizer)
    room = limit - _size(nearest, tokenizer) - _size(_BETWEEN, tokenizer)
    return _shortened(_BETWEEN.join((_shortened(parts[0], room, tokenizer), nearest)), limit, tokenizer)


def _size(text: str, tokenizer: Tokenizer | None) -> int:
    return len(text) if tokenizer is None else tokenizer.count(text)


def _shortened(text: str, limit: int, tokenizer: Tokenizer | None) -> str:
    if _size(text, tokenizer) <= limit:
        return text
    ends = range(1, len(text) + 1) if tokenizer is None else [end for _, end in tokenizer.offsets(text)]
    for kept in range(min(limit, len(ends)) - 1, 0, -1):
        shorter = text[: ends[kept - 1]].rstrip() + _CUT
        if _size(shorter, tokenizer) <= limit:
            return shorter
    return ""


def title_of(document: Document) -> str:
    """The title that the document gives itself; a file name is none, for it may change without the text."""
    name = PurePosixPath(unquote(urlsplit(document.uri).path)).name
    return "" if document.title == name else document.title


class Contexts:
    """The contexts of one document's chunks: the line of title and headings, then the table's header."""

    def __init__(self, document: Document, *, limit: int, header: int, tokenizer: Tokenizer | None) -> None:
        self._title = title_of(document)
        self._limit = limit
        self._header = header
        self._tokenizer = tokenizer
        self._lines: dict[tuple[str, ...], str] = {}
        self._headers: dict[str, str] = {}

    def of(self, headings: tuple[str, ...], table_header: str) -> str:
        line = self._lines.get(headings)
        if line is None:
            line = context_of(self._title, headings, limit=self._limit, tokenizer=self._tokenizer)
            self._lines[headings] = line
        if not table_header:
            return line
        repeated = self._headers.get(table_header)
        if repeated is None:
            repeated = _shortened(" ".join(table_header.split()), self._header, self._tokenizer)
            self._headers[table_header] = repeated
        return f"{line}\n{repeated}" if line and repeated else line or repeated
