"""What of a passage can be quoted: its sentences, items and table rows, each with what is above it (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragstone.cite import without_markers
from ragstone.language import language_of
from ragstone.sentences import sentences
from ragstone.types import Hit

MAX_QUOTE = 400
"""Characters; what is longer is quoted in part."""

_MAX_TITLE = 40
_CLAUSE = re.compile(r"[，,；;、：:\s]")
_LIST_MARK = re.compile(r"^\s*(?:[-*+•·]\s+|\d{1,3}[.)]\s+|\d{1,3}[、．]\s*)(?=\S)")
_ENDED = re.compile(r"[.!?。！？…][\"'”’」』）)]*$")
_DELIMITER = re.compile(r"\|(?:\s*:?-+:?\s*\|)+")
_RULE = re.compile(r"[=*_-]{3,}")
_LABELLED = re.compile(r"[^\n:：。.]{1,20}[:：][^\n]*(?:\n\s*[^\n:：。.]{1,20}[:：][^\n]*)+")
# 一、进度 on a line of its own, with its text in the next line.
_SECTION = re.compile(
    r"(?:[一二三四五六七八九十]{1,3}、|第[一二三四五六七八九十\d]{1,4}[章节条])[^\n。，,:：]{0,20}\n"
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A quotable part of passage `n` at `start` of its text.

    `heading` is the title, question or lead-in above it, which says what it is about; of a
    table's row it ends with `header`, the names of the columns. `coverage` is the share of
    the question's terms that it holds, weighed by rarity; of `score` see `ExtractiveGenerator`.
    """

    n: int
    start: int
    text: str
    heading: str
    header: str = ""
    coverage: float = 0.0
    score: float = 0.0

    @property
    def told(self) -> str:
        """What it says, with what it is about."""
        return f"{self.heading}\n{self.text}".strip()


def parts_of(n: int, hit: Hit) -> list[Candidate]:
    """All that is worth quoting of a passage; headings and questions go with what is below them."""
    text = hit.chunk.text
    above = _Above(*_context(hit))
    units = list(_units(text))
    found: list[Candidate] = []
    for (start, unit), (_, below) in zip(units, [*units[1:], (0, "")], strict=False):
        if not above.takes(text, start, unit, below):
            found += [
                Candidate(n, start + at, piece, above.heading, above.header) for at, piece in _pieces(unit)
            ]
    if not found and text.strip():
        at = len(text) - len(text.lstrip())
        found = [Candidate(n, at + cut, piece, "") for cut, piece in _pieces(text.strip())]
    return found


class _Above:
    """What stands above the unit that is read: section, table header, and the question or lead-in."""

    def __init__(self, section: str, header: str) -> None:
        self._section, self.header = section, header
        self._lead, self._answered = "", False

    @property
    def heading(self) -> str:
        return "\n".join(part for part in (self._section, self._lead, self.header) if part)

    def takes(self, text: str, start: int, unit: str, below: str) -> bool:
        """Whether the unit only says what is below it."""
        if _DELIMITER.fullmatch(unit):
            return True
        if unit.startswith("|"):
            if names := bool(_DELIMITER.fullmatch(below)):
                self.header = unit
            return names
        self.header = ""
        if unit.startswith("#"):
            self._section, self._lead = unit.strip("# "), ""
        elif unit.endswith(("?", "？")) or (below and _titles(text, start, unit)):
            self._lead, self._answered = unit, False
        else:
            if self._answered and text[:start].endswith("\n\n"):
                self._lead = ""
            self._answered = True
            return False
        return True


def _context(hit: Hit) -> tuple[str, str]:
    """The nearest heading above the passage, and the header of the table it is cut from."""
    header = hit.chunk.context.rpartition("\n")[2]
    section = hit.chunk.headings[-1] if hit.chunk.headings else ""
    return section, header if header.startswith("|") else ""


def _units(text: str) -> Iterator[tuple[int, str]]:
    """Sentences, items and rows; a section's name and each line of `Label: value` by themselves."""
    for start, end in sentences(text):
        for unit_start, unit in _split(start, text[start:end]):
            said = any(character.isalnum() for character in unit) or _DELIMITER.fullmatch(unit)
            if said and not _RULE.fullmatch(unit):
                yield unit_start, unit


def _split(start: int, unit: str) -> Iterator[tuple[int, str]]:
    section = _SECTION.match(unit)
    cuts = [section.end()] if section else []
    if _LABELLED.fullmatch(unit):
        cuts = [match.end() for match in re.finditer(r"\n", unit)]
    for begin, end in zip([0, *cuts], [*cuts, len(unit)], strict=True):
        part = unit[begin:end]
        yield start + begin + len(part) - len(part.lstrip()), part.strip()


def _titles(text: str, start: int, unit: str) -> bool:
    """Whether a unit only names what is below it: a short line of its own, or the lead-in of a list."""
    if unit.endswith((":", "：")):
        return True
    if _SECTION.fullmatch(unit + "\n"):
        return True
    alone = not text[:start].strip() or text[:start].endswith("\n\n")
    after = text[start + len(unit) :]
    plain = not (_ENDED.search(unit) or _LIST_MARK.match(unit) or re.search(r"[\d:：|]", unit))
    return alone and plain and "\n" not in unit and len(unit) <= _MAX_TITLE and after.startswith("\n\n")


def said_once(ranked: Sequence[Candidate]) -> list[Candidate]:
    """The first of equal candidates: copies of a document would otherwise say the same twice."""
    kept: dict[str, Candidate] = {}
    for one in ranked:
        kept.setdefault(" ".join(one.text.split()), one)
    return list(kept.values())


def _pieces(sentence: str) -> Iterator[tuple[int, str]]:
    """A sentence in pieces of at most 400 characters, cut behind a clause where there is one."""
    at = 0
    while len(sentence) - at > MAX_QUOTE:
        clauses = [match.end() for match in _CLAUSE.finditer(sentence, at + MAX_QUOTE // 2, at + MAX_QUOTE)]
        cut = clauses[-1] if clauses else at + MAX_QUOTE
        yield at, sentence[at:cut]
        at = cut
    yield at, sentence[at:]


def written(quote: Candidate, before: Candidate | None) -> str:
    """The quote with its marker, as it goes on behind the one `before`. A row stands in its table."""
    if quote.text.startswith("|"):
        row = f"{_quotable(quote.text)} [{quote.n}]"
        if before and (before.n, before.header) == (quote.n, quote.header) and before.text.startswith("|"):
            return f"\n{row}"
        header = [quote.header, "|" + "---|" * (quote.header.count("|") - 1)] if quote.header else []
        return ("\n\n" if before else "") + "\n".join([*header, row])
    text = _quotable(quote.text)
    chinese = language_of(text) == "zh"
    joint = "" if before is None else " " * (not chinese) if _ENDED.search(before.text) else "\n\n"
    return f"{joint}{text}{'' if chinese else ' '}[{quote.n}]"


def _quotable(text: str) -> str:
    """On one line, without its list mark, the document's own footnote markers and open backticks."""
    text = _LIST_MARK.sub("", text)
    lines = re.sub(r"(?<=[^\x00-\u2e7f])\s+(?=[^\x00-\u2e7f])", "", text)
    plain = without_markers(" ".join(lines.split()))
    return plain.replace("`", "'") if plain.count("`") % 2 or "```" in plain else plain
