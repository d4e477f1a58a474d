"""Line ends and blanks: safe for every document."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ragstone.clean.edits import Edit, edited
from ragstone.types import Document

# One match is a whole run of line ends with the blanks around them. It starts at the
# first blank, never in the middle of blanks, so that long runs of spaces cost one pass.
_LINE_ENDS = re.compile(
    r"(?:(?<![^\S\r\n])[^\S\r\n]++)?(?:\r\n?|\n)(?:[^\S\r\n]*+(?:\r\n?|\n))*+(?:[^\S\r\n]++\Z)?"
    r"|(?<![^\S\r\n])[^\S\r\n]++\Z"
)
_LINE_END = re.compile(r"\r\n?|\n")


def tidy_blanks(document: Document) -> Document:
    """Line ends become `\\n`, blanks at line ends go, three or more blank lines become one."""
    return edited(document, _edits(document.text))


def _edits(text: str) -> Iterable[Edit]:
    for match in _LINE_ENDS.finditer(text):
        count = len(_LINE_END.findall(match[0]))
        if match.start() == 0 or match.end() == len(text):
            yield match.start(), match.end(), ""
        else:
            yield match.start(), match.end(), "\n" * (count if count <= 3 else 2)
