"""AsciiDoc, reStructuredText and LaTeX: the text stays as written, its headings are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ragstone.parse.decode import Decoded
from ragstone.parse.outline import Heading, document, plain
from ragstone.parse.text import damage
from ragstone.types import Blob, Document

_LATEX_LEVELS = {
    "part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5,
}  # fmt: skip
_LATEX_HEADING = re.compile(
    r"^[ \t]*\\(part|chapter|section|subsection|subsubsection|paragraph)\*?(?:\[[^\[\]\n]*\])?\{([^\n]*)",
    re.MULTILINE,
)
_LATEX_TITLE = re.compile(r"^[ \t]*\\title(?:\[[^\[\]\n]*\])?\{([^\n]*)", re.MULTILINE)
_ASCIIDOC_HEADING = re.compile(r"(={1,6})[ \t]+(\S.*)")
_ASCIIDOC_FENCE = re.compile(r"(-{4,}|\.{4,}|={4,}|\*{4,}|_{4,}|\+{4,}|/{4,}|```|\|===)\s*")
_RST_LINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*")


def parse_plain_markup(blob: Blob, decoded: Decoded, kind: str) -> Document:
    """`kind` is a key of `KINDS`."""
    text = decoded.text.strip("\n")
    media_type, find = KINDS[kind]
    headings = list(find(text))
    title = next((heading.title for heading in headings if heading.level == 1), "")
    if kind == "latex":
        named = _LATEX_TITLE.search(text)
        title = _argument(named[1]) if named is not None else ""
    return document(
        blob, text, media_type=media_type, title=title, headings=headings, warnings=damage(blob, decoded)
    )


def _asciidoc(text: str) -> Iterator[Heading]:
    fence, start = "", 0
    for line in text.split("\n"):
        mark = _ASCIIDOC_FENCE.fullmatch(line)
        if mark is not None and mark[1] != "|===":
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence and (heading := _ASCIIDOC_HEADING.fullmatch(line)) is not None:
            yield Heading(len(heading[1]), plain(heading[2].rstrip("= ")), start)
        start += len(line) + 1


def _rst(text: str) -> Iterator[Heading]:
    """A line over a row of signs as long as itself; which sign is which level follows from the order."""
    lines = text.split("\n")
    levels: dict[tuple[str, bool], int] = {}
    start = 0
    for index, line in enumerate(lines[:-1]):
        under = lines[index + 1].rstrip()
        before = lines[index - 1].rstrip() if index else ""
        title = line.strip()
        is_title = bool(title) and not _RST_LINE.fullmatch(line) and bool(_RST_LINE.fullmatch(under))
        over = is_title and before == under
        fits = len(under) >= min(len(title), 4)
        if is_title and fits and (over or (not before.strip() and not line[0].isspace())):
            level = levels.setdefault((under[0], over), len(levels) + 1)
            yield Heading(min(level, 6), plain(title), start - (len(lines[index - 1]) + 1 if over else 0))
        start += len(line) + 1


def _latex(text: str) -> Iterator[Heading]:
    found = [(match, _argument(match[2])) for match in _LATEX_HEADING.finditer(text)]
    used = sorted({_LATEX_LEVELS[match[1]] for match, title in found if title})
    for match, title in found:
        if title:
            yield Heading(used.index(_LATEX_LEVELS[match[1]]) + 1, title, match.start())


def _argument(rest: str) -> str:
    """What stands up to the brace that closes the one before `rest`, without commands."""
    depth = 1
    for place, sign in enumerate(rest):
        depth += (sign == "{") - (sign == "}")
        if not depth:
            rest = rest[:place]
            break
    text = re.sub(r"\\label\{[^{}]*\}|\\[A-Za-z]+\*?[ \t]*|[{}$]", "", rest)
    return " ".join(re.sub(r"\\([&%#_])", r"\1", text).replace("~", " ").split())


KINDS: dict[str, tuple[str, Callable[[str], Iterator[Heading]]]] = {
    "asciidoc": ("text/asciidoc", _asciidoc),
    "rst": ("text/x-rst", _rst),
    "latex": ("text/x-tex", _latex),
}
NAMES = {
    "adoc": "asciidoc", "asciidoc": "asciidoc", "asc": "asciidoc",
    "rst": "rst", "rest": "rst",
    "tex": "latex", "latex": "latex", "ltx": "latex",
}  # fmt: skip
