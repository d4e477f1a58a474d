"""Facts of a sentence that its passages do not hold: numbers, dates, identifiers, quotations (pure).

No model: a fact is missing when it does not occur in any cited passage, whatever its
width, case and thousands separators. Number words of English ("twelve") and Chinese
(十二, 三万) and month names in a passage count as the numbers they mean.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from ragstone.messages import Language, render

_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})+(?:\.\d+)?(?![\d])|(?<!\d)(?<!\d\.)\d+(?:\.\d+)?")
# Each pattern looks at a character a fixed number of times, whatever a model repeats.
_COMPOUND_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_.\-][A-Za-z0-9]+)*")
_QUOTED = re.compile(r"“([^“”]{2,})”|「([^「」]{2,})」|『([^『』]{2,})』|\"([^\"\n]{2,})\"|`([^`\n]{2,})`")
_ENUMERATOR = re.compile(r"^\s*(?:\d{1,3}[.)、．]|[(（]\d{1,3}[)）])\s*")
_WORD = re.compile(r"[a-z]+")
_CHINESE_NUMBER = re.compile(r"[〇零一二两三四五六七八九十百千万亿兩萬億]{1,20}")

_UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]
_TENS = ["thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_ENGLISH = (
    {word: value for value, word in enumerate(_UNITS)}
    | {word: 10 * value for value, word in enumerate(_TENS, start=3)}
    | {word: value for value, word in enumerate(_MONTHS, start=1)}
    | {word[:3]: value for value, word in enumerate(_MONTHS, start=1)}
    | {"once": 1, "first": 1, "twice": 2, "second": 2, "third": 3, "hundred": 100, "thousand": 1000}
)
_COMPOUND = re.compile(rf"\b({'|'.join(['twenty', *_TENS])})[- ]({'|'.join(_UNITS[1:10])})\b")
_DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {
    "〇": 0,
    "两": 2,
    "兩": 2,
}
_SCALES = {"十": 10, "百": 100, "千": 1000}
_MYRIADS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}


class Evidence:
    """What a passage holds, worked out once for all sentences that are compared with it."""

    def __init__(self, passage: str) -> None:
        text = _folded(passage)
        self.squeezed = _squeezed(text)
        self.numbers = _numbers_of(text)


MOST_REMARKS = 5


def needs_review(audit: Mapping[str, Any]) -> bool:
    """Whether the audit of an answer found what a reader should look at; a refusal has no audit."""
    return bool(audit) and not (audit["cited"] and not audit["unsupported"] and not audit["removed_markers"])


def remarks(audit: Mapping[str, Any], language: Language) -> list[str]:
    """What the audit found, as sentences for the reader of the answer."""
    if not needs_review(audit):
        return []
    found = [] if audit["cited"] else [render("audit.no_citation", language)]
    for item in audit["unsupported"][:MOST_REMARKS]:
        facts = ", ".join(item["missing"])
        found.append(render("audit.unsupported", language, facts=facts, sentence=item["sentence"]))
    if audit["removed_markers"]:
        numbers = ", ".join(f"[{n}]" for n in dict.fromkeys(audit["removed_markers"]))
        found.append(render("audit.removed_markers", language, numbers=numbers))
    return found


def missing_facts(sentence: str, passages: Sequence[Evidence]) -> list[str]:
    """The facts of `sentence` that stand in none of `passages`, in order, each once."""
    sentence = _ENUMERATOR.sub("", _folded(sentence))
    quoted = ["".join(groups) for groups in _QUOTED.findall(sentence)]
    rest = _QUOTED.sub(" ", sentence)
    identifiers = [word for word in _COMPOUND_WORD.findall(rest) if _is_identifier(word)]
    rest = _COMPOUND_WORD.sub(lambda word: " " if _is_identifier(word[0]) else word[0], rest)
    facts = dict.fromkeys((*quoted, *identifiers))
    missing = [fact for fact in facts if not any(_squeezed(fact) in one.squeezed for one in passages)]
    numbers = dict.fromkeys(_NUMBER.findall(rest))
    missing += [fact for fact in numbers if not any(_plain(fact) in one.numbers for one in passages)]
    return list(dict.fromkeys(missing))


def missing_numbers(text: str, known: str) -> list[str]:
    """The numbers of `text` that `known` holds in no spelling, in order, each once."""
    there = _numbers_of(_folded(known))
    numbers = dict.fromkeys(_NUMBER.findall(_ENUMERATOR.sub("", _folded(text))))
    return [number for number in numbers if _plain(number) not in there]


def _is_identifier(word: str) -> bool:
    return len(word) > 1 and ("_" in word or any(character.isdigit() for character in word))


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _plain(number: str) -> str:
    """One spelling a value: no separators, no leading zeros, no zeros after the point."""
    whole, _, fraction = number.replace(",", "").partition(".")
    fraction = fraction.rstrip("0")
    return (whole.lstrip("0") or "0") + (f".{fraction}" if fraction else "")


def _numbers_of(text: str) -> set[str]:
    found = {_plain(number) for number in _NUMBER.findall(text)}
    found |= {str(_ENGLISH[word]) for word in _WORD.findall(text) if word in _ENGLISH}
    found |= {str(_ENGLISH[tens] + _ENGLISH[unit]) for tens, unit in _COMPOUND.findall(text)}
    found |= {str(_chinese(word)) for word in _CHINESE_NUMBER.findall(text)}
    return found


def _chinese(word: str) -> int:
    """The value of a Chinese number word: 二十三 is 23, 二〇一五 is 2015, 三万五千 is 35000."""
    if all(character in _DIGITS for character in word):
        return int("".join(str(_DIGITS[character]) for character in word))
    total = section = digit = 0
    for character in word:
        if character in _DIGITS:
            digit = _DIGITS[character]
        elif character in _SCALES:
            section += (digit or 1) * _SCALES[character]
            digit = 0
        else:
            total += max(section + digit, 1) * _MYRIADS[character]
            section = digit = 0
    return total + section + digit
