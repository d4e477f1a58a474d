"""Whether what a reader made of a file is writing. Silent garbage is worse than a refusal."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from ragstone.errors import CorruptContent
from ragstone.types import Blob

SAMPLE = 20_000
"""Characters looked at: evenly from the beginning, the middle and the end."""
MAX_BAD = 0.05
"""Share of replacement, private-use, unassigned and control characters above which text is refused."""
MAX_SYMBOLS = 0.5
"""Share of signs of symbol fonts; a form has some for its check boxes."""
MAX_RARE = 0.3
"""Share of Chinese characters in no national set: of misread bytes a half, of writing next to none."""
MAX_ACCENTS = 0.6
"""Share of words made of accented letters only, as in Chinese bytes read as Latin letters."""

_SYMBOLS = re.compile("[\uf000-\uf0ff]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_ACCENTED = re.compile("(?<![A-Za-z])[\u00a1-\u00ff]{2,}(?![A-Za-z])")
_LATIN_WORD = re.compile("[A-Za-z\u00c0-\u00ff]{2,}|[\u00a1-\u00ff]{2,}")


def check(blob: Blob, text: str, found: str) -> None:
    """Refuse `text` that is no writing.

    Raises:
        CorruptContent: names what was seen, with a sample.
    """
    doubt = doubts(text)
    if doubt:
        reason, sample = doubt
        raise CorruptContent("parse.not_writing", name=blob.name, found=found, reason=reason, sample=sample)


def doubts(text: str) -> tuple[str, str] | None:
    """What speaks against `text` being writing, and a sample of it; None when nothing does."""
    sample = _sample(text)
    visible = sum(1 for character in sample if not character.isspace())
    if not visible:
        return None
    bad = [character for character in sample if _is_bad(character)]
    if len(bad) > 2 and len(bad) > MAX_BAD * visible:
        code, _count = Counter(bad).most_common(1)[0]
        return f"{len(bad) * 100 // visible}% U+{ord(code):04X}", _around(sample, code)
    symbols = _SYMBOLS.findall(sample)
    if len(symbols) > MAX_SYMBOLS * visible:
        return f"{len(symbols) * 100 // visible}% U+F000..U+F0FF", "".join(symbols[:15])
    han = _HAN.findall(sample)
    rare = [character for character in han if not _in_a_national_set(character)]
    if len(han) >= 20 and len(rare) > MAX_RARE * len(han):
        return f"{len(rare) * 100 // len(han)}% U+{ord(rare[0]):04X}..", _around(sample, rare[0])
    if is_misread_latin(sample):
        return "U+00A1..U+00FF", "".join(_ACCENTED.findall(sample))[:20]
    return None


def is_misread_latin(text: str) -> bool:
    """Whether most words are runs of accented letters and signs, which no language writes."""
    runs, words = _ACCENTED.findall(text), _LATIN_WORD.findall(text)
    length = sum(map(len, runs))
    return length >= 8 and length > MAX_ACCENTS * sum(map(len, words))


def _sample(text: str) -> str:
    if len(text) <= SAMPLE:
        return text
    part, middle = SAMPLE // 3, len(text) // 2
    return text[:part] + text[middle : middle + part] + text[-part:]


def _is_bad(character: str) -> bool:
    if character < "\x7f":
        return character < " " and character not in "\t\n\r"
    if "\uf000" <= character <= "\uf0ff" or character >= "\U0001f000":
        return False  # check boxes and bullets of symbol fonts; emoji newer than this Python
    return character == "\ufffd" or unicodedata.category(character) in ("Co", "Cn", "Cc", "Cs")


def _in_a_national_set(character: str) -> bool:
    for encoding in ("gb2312", "big5", "cp932", "euc_kr"):
        try:
            character.encode(encoding)
        except UnicodeEncodeError:
            continue
        return True
    return False


def _around(text: str, character: str) -> str:
    place = text.index(character)
    return " ".join(text[max(place - 5, 0) : place + 15].split())
