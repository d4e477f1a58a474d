"""Text with the headings it stands under: written piece by piece, or found in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ragstone.errors import NoText
from ragstone.metadata import MetadataValue
from ragstone.place import HeadingSpan, PageSpan, RowSpan
from ragstone.types import Blob, Box, Document, Remark, digest

PARSER_REVISION = "4"
"""Part of every document's revision: raised when a parser's text changes, so that files are read anew."""

MAX_HEADING = 300


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of `level` 1 to 6 whose line begins at `start`."""

    level: int
    title: str
    start: int


class Outline:
    """Builds Markdown text block by block and knows where its headings are."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self.headings: list[Heading] = []
        self.rows: list[RowSpan] = []

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def length(self) -> int:
        """Characters written so far."""
        return self._length

    def block(self, text: str, *, gap: str = "\n\n", rows: Sequence[int] = ()) -> None:
        """Add a paragraph, list or table; blank text adds nothing. `gap` parts it from the one before.

        `rows` says which row of a spreadsheet each line is, 0 for none.
        """
        above = len(text) - len(text.lstrip("\n"))
        text = text.strip("\n")
        if not text.strip():
            return
        piece = f"{gap}{text}" if self._parts else text
        if rows:
            lines = rows[above : above + text.count("\n") + 1]
            self.rows += row_spans(text, lines, self._length + len(piece) - len(text))
        self._parts.append(piece)
        self._length += len(piece)

    def begin_with(self, text: str) -> None:
        """Put a paragraph in front of all that is there."""
        shift = len(text) + 2
        self._parts.insert(0, f"{text}\n\n")
        self._length += shift
        self.headings = [replace(heading, start=heading.start + shift) for heading in self.headings]

    def heading(self, level: int, title: str) -> None:
        title = " ".join(title.split())
        if not title:
            return
        start = self._length + (2 if self._parts else 0)
        self.block(f"{'#' * level} {title}")
        self.headings.append(Heading(level, title[:MAX_HEADING], start))


def row_spans(text: str, rows: Sequence[int], start: int = 0) -> list[RowSpan]:
    """Where the lines of `text`, which begins at `start`, stand in a spreadsheet; 0 is no row."""
    found: list[RowSpan] = []
    many = False  # whether the last span has a line for each row, or is one row of any number of lines
    for number, line in zip(rows, text.split("\n"), strict=True):
        end = start + len(line)
        before = found[-1] if found and found[-1].end == start - 1 else None
        if before and number and number == before.last and not (many and before.first < before.last):
            found[-1], many = replace(before, end=end), False
        elif before and number and number == before.last + 1 and many:
            found[-1] = replace(before, last=number, end=end)
        elif number:
            found.append(RowSpan(first=number, last=number, start=start, end=end))
            many = True
        start = end + 1
    return found


def spans(headings: Iterable[Heading], end: int) -> tuple[HeadingSpan, ...]:
    """One span a heading, from its own line to the next heading of any level.

    The path of each names the headings it stands under, outermost first, itself last.
    """
    found: list[HeadingSpan] = []
    open_headings: list[Heading] = []
    ordered = list(headings)
    for index, heading in enumerate(ordered):
        while open_headings and open_headings[-1].level >= heading.level:
            open_headings.pop()
        open_headings.append(heading)
        stop = ordered[index + 1].start if index + 1 < len(ordered) else end
        path = tuple(item.title for item in open_headings)
        found.append(HeadingSpan(path=path, start=heading.start, end=stop))
    return tuple(found)


_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
# A line that cannot be the text of an underlined heading: list, quote, table, indented code.
_NO_PARAGRAPH = re.compile(r"( {4}|\t| {0,3}([-+*>|]|\d{1,9}[.)])(\s|$))")


def markdown_headings(text: str, *, offset: int = 0) -> list[Heading]:
    """The headings of Markdown `text`, ATX (`# x`) and underlined, never inside a code fence."""
    found: list[Heading] = []
    fence, start, before = "", 0, ""
    for line in text.split("\n"):
        marker = _FENCE.match(line)
        if fence:
            if marker and marker[1].startswith(fence) and not marker[2].strip():
                fence = ""
            before = ""
        elif marker and not (marker[1][0] == "`" and "`" in marker[2]):
            fence, before = marker[1], ""
        elif atx := _ATX.match(line):
            title = re.sub(r"(^|[ \t])#+[ \t]*$", "", atx[2] or "")
            _add(found, len(atx[1]), title, offset + start)
            before = ""
        elif before and (underline := _UNDERLINE.match(line)):
            level = 1 if underline[1].startswith("=") else 2
            _add(found, level, before, offset + start - len(before) - 1)
            before = ""
        else:
            before = "" if not line.strip() or _NO_PARAGRAPH.match(line) else line
        start += len(line) + 1
    return found


def _add(found: list[Heading], level: int, title: str, start: int) -> None:
    title = plain(title)
    if title:
        found.append(Heading(level, title[:MAX_HEADING], start))


_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_EMPHASIS = re.compile(r"(\*{1,3}|`+|~~)(?=\S)(.+?)(?<=\S)\1")


def plain(inline: str) -> str:
    """Inline Markdown as a reader sees it: without emphasis, code marks and link targets."""
    inline = _EMPHASIS.sub(r"\2", _LINK.sub(r"\1", inline.strip()[: 4 * MAX_HEADING]))
    return " ".join(_ESCAPE.sub(r"\1", inline).split())


def table(rows: list[list[str]]) -> str:
    """Rows of cells as a Markdown table, the first row its head; ragged rows are filled up."""
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    if not rows:
        return ""
    width = max(len(row) for row in rows)
    lines = [
        "| "
        + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row + [""] * (width - len(row)))
        + " |"
        for row in rows
    ]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def document(
    blob: Blob,
    text: str,
    *,
    media_type: str,
    title: str = "",
    headings: Iterable[Heading] = (),
    pages: Iterable[PageSpan] = (),
    metadata: Mapping[str, MetadataValue] | None = None,
    warnings: Iterable[Remark] = (),
    boxes: Iterable[Box] = (),
    rows: Iterable[RowSpan] = (),
) -> Document:
    """What a parser made of `blob`. Metadata that came with the blob wins over the file's own.

    Without a title it is named after its file.

    Raises:
        NoText: `text` is blank.
    """
    if not text.strip():
        raise NoText("parse.no_text", name=blob.name)
    headings = list(headings)
    return Document(
        text=text,
        uri=blob.uri,
        title=" ".join(title.split())[:MAX_HEADING] or blob.name,
        media_type=media_type,
        revision=digest(blob.content_hash, PARSER_REVISION),
        pages=tuple(pages),
        headings=spans(headings, len(text)),
        metadata={**(metadata or {}), **blob.metadata},
        warnings=tuple(warnings),
        boxes=tuple(boxes),
        rows=tuple(rows),
    )
