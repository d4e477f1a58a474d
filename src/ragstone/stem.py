"""English words to their stems (pure).

Porter's second stemmer, from its published description (snowballstem.org/algorithms/english),
without the rules for apostrophes, which no term holds. Searching needs no more than that
the forms of one word become the same string, which need not be a word.
"""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[a-z]{3,40}")
_REGION = re.compile(r"[aeiouy][^aeiouy]")
_VOWEL = re.compile(r"[aeiouy]")
_SHORT_END = re.compile(r"(?:[^aeiouy][aeiouy][^aeiouywxY]|^[aeiouy][^aeiouy])$")
_DOUBLE = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")
_BEFORE_LI = "cdeghkmnrt"
_LONG_START = re.compile(r"(?:gener|commun|arsen|past|univers|later|emerg|organ|inter)")

_WHOLE = {
    **{"skis": "ski", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "idly": "idl"},
    **{"gently": "gentl", "ugly": "ugli", "early": "earli", "only": "onli", "singly": "singl"},
    **{word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")},
}
_KEPT = frozenset(
    ["evening", "inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"]
)

_STEP_2 = {
    **{"tional": "tion", "enci": "ence", "anci": "ance", "abli": "able", "entli": "ent"},
    **{"izer": "ize", "ization": "ize", "ational": "ate", "ation": "ate", "ator": "ate"},
    **{"alism": "al", "aliti": "al", "alli": "al", "fulness": "ful", "fulli": "ful", "lessli": "less"},
    **{"ousli": "ous", "ousness": "ous", "iveness": "ive", "iviti": "ive", "biliti": "ble", "bli": "ble"},
    **{"ogist": "og", "ogi": "og", "li": ""},
}
_STEP_3 = {
    **{"tional": "tion", "ational": "ate", "alize": "al", "icate": "ic", "iciti": "ic", "ical": "ic"},
    **{"ful": "", "ness": "", "ative": ""},
}
_STEP_4 = [
    "al",
    "ance",
    "ence",
    "er",
    "ic",
    "able",
    "ible",
    "ant",
    "ement",
    "ment",
    "ent",
    "ism",
    "ate",
    "iti",
    "ous",
    "ive",
    "ize",
    "ion",
]


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a lower-case English word; anything else comes back as it is."""
    if word in _WHOLE or not _WORD.fullmatch(word):
        return _WHOLE.get(word, word)
    word = re.sub(r"^y|(?<=[aeiouy])y", "Y", word)
    first, second = _regions(word)
    word = _plural(word)
    if word in _KEPT:
        return word
    word = _past(word, first)
    if word[-1] in "yY" and len(word) > 2 and word[-2] not in "aeiouy":
        word = word[:-1] + "i"
    word = _suffix(word, _STEP_2, first, second)
    word = _suffix(word, _STEP_3, first, second)
    word = _ending(word, second)
    return _last(word, first, second).lower()


def _regions(word: str) -> tuple[int, int]:
    """Where R1 and R2 begin: behind the first consonant after a vowel, and again from there."""
    start = _LONG_START.match(word)
    found = None if start else _REGION.search(word)
    first = start.end() if start else found.end() if found else len(word)
    found = _REGION.search(word, first)
    return first, found.end() if found else len(word)


def _plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _VOWEL.search(word, 0, len(word) - 2):
        return word[:-1]
    return word


def _past(word: str, first: int) -> str:
    for suffix in ("eedly", "eed"):
        if word.endswith(suffix):
            return word[: -len(suffix)] + "ee" if len(word) - len(suffix) >= first else word
    for suffix in ("ingly", "edly", "ing", "ed"):
        if word.endswith(suffix):
            left = word[: -len(suffix)]
            return _mended(left, first) if _VOWEL.search(left) else word
    return word


def _mended(word: str, first: int) -> str:
    """What is left without -ed or -ing, as it was before: hop, hope, fall."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if word.endswith(_DOUBLE):
        return word[:-1]
    return word + "e" if first >= len(word) and _SHORT_END.search(word) else word


def _suffix(word: str, step: dict[str, str], first: int, second: int) -> str:
    """The longest suffix of the step, replaced where it lies in R1."""
    for length in range(min(7, len(word)), 1, -1):
        suffix = word[-length:]
        if suffix not in step:
            continue
        before = word[-length - 1 : -length]
        fits = len(word) - length >= (second if suffix == "ative" else first)
        if suffix == "ogi":
            fits = fits and before == "l"
        elif suffix == "li":
            fits = fits and before != "" and before in _BEFORE_LI
        return word[:-length] + step[suffix] if fits else word
    return word


def _ending(word: str, second: int) -> str:
    for suffix in sorted(_STEP_4, key=len, reverse=True):
        if word.endswith(suffix):
            left = word[: -len(suffix)]
            fits = len(left) >= second and (suffix != "ion" or left.endswith(("s", "t")))
            return left if fits else word
    return word


def _last(word: str, first: int, second: int) -> str:
    left = word[:-1]
    if word.endswith("e") and (len(left) >= second or (len(left) >= first and not _SHORT_END.search(left))):
        return left
    return left if word.endswith("ll") and len(left) >= second else word
