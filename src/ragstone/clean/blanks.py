"""Line ends and blanks: safe for every document."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ragstone.clean.edits import Edit, edited, revised
from ragstone.types import Document

_BREAK = re.compile(r"[\r\n]")
# From the first line end of a run to the last: blank lines are inside, and blanks at the end of the text.
_RUN = re.compile(r"(?:\r\n?|\n)(?:[^\S\r\n]*+(?:\r\n?|\n))*+(?:[^\S\r\n]++\Z)?")
_LINE_END = re.compile(r"\r\n?|\n")


@revised("tidy_blanks/1")
def tidy_blanks(document: Document) -> Document:
    """Line ends become `\\n`, blanks at line ends go, three or more blank lines become one."""
    return edited(document, _edits(document.text))


def _edits(text: str) -> Iterable[Edit]:
    position = 0
    # A plain search for the next line end: one pattern for all of it holds the interpreter for as
    # long as a line is, which may be many megabytes.
    while found := _BREAK.search(text, position):
        run = _RUN.match(text, found.start())
        assert run is not None
        start = position + len(text[position : found.start()].rstrip())
        position = run.end()
        if start == 0 or position == len(text):
            yield start, position, ""
        else:
            count = len(_LINE_END.findall(run[0]))
            yield start, position, "\n" * (count if count <= 3 else 2)
    start = position + len(text[position:].rstrip())
    if start < len(text):
        yield start, len(text), ""
