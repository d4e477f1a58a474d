"""Short questions: the one term they consist of, and whether what was found holds it (pure).

Vectors find something for every word. Who asks for "Redis" or "年假" wants passages in which the
word stands, so a search for a single term is effective only when one of its hits holds it. What
is more than a term (a phrase, a sentence) is effective when it finds anything (rows A56, W13).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ragstone.terms import STOP_WORDS, analyze
from ragstone.trace import note
from ragstone.types import Hit, Query

MAX_WORD = 30
"""Characters of a term in letters: longer runs are encoded data."""

MAX_HAN = 4
"""Characters of a term in Chinese: words have two or three, compounds four."""

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_ONLY_HAN = re.compile(rf"[{_HAN}]+")
_ANY_HAN = re.compile(rf"[{_HAN}]")
_ENDS = "\"'“”‘’「」『』《》()（）[]"
_BREAK = re.compile(r"[\s，。？！、；：…,;!?]+")

_BEFORE = (
    r"请问|请介绍|请解释|请说明|请讲|帮我|我想|想要|想知道|想了解|查一下|搜一下|介绍一下|解释一下|说明一下|讲一下|关于|有关"
    r"|什么是|什么叫做|什么叫|何谓|何为|谁是|怎么样|怎么|怎样|如何|为什么|請問|甚麼是|什麼是|為什麼|怎麼|怎樣|關於"
)
_BEHIND = (
    r"是什么意思|是什么|什么意思|是啥|是谁|指什么|怎么样|怎么办|怎么用|在哪里|在哪|如何|的意思|的含义|的定义|的概念|的介绍"
    r"|是什麼意思|是什麼|是誰|呢|吗|嗎|吧|啊|呀"
)
# Asking words come off the ends only: 请假, 搜索引擎 and 说明书 keep theirs.
_FRAME = re.compile(rf"^(?:{_BEFORE})+|(?:{_BEHIND})+$")
# Words of one or two characters that make a phrase or a sentence of what stands around them.
_GRAMMAR = re.compile(
    r"[的了是在和与或把被从对为就也都很更最几哪谁何怎么吗呢吧它他她这那我你您们有无能可要会不没該该應应让给用到"
    r"與從對為幾誰麼嗎這們無會沒讓給]|什么|多少|多久|多长|多大|是否|能否|以及|区别|區別"
)
_ASKING_WORDS = """
who whom explain define describe definition meaning mean means tell find search show give please
about can could would should will does did some any what's whats who's
"""
_ASKING = frozenset(_ASKING_WORDS.split())


def core_term(question: str) -> str | None:
    """The one term a question consists of, without the words that only ask; None for a phrase or sentence.

    A word in letters with the signs that belong to it (`C++`, `.NET`, `AB-1203/7`), or up to four
    Chinese characters with no grammar among them: "什么是索引？" asks for 索引, "索引怎么建" is a sentence.
    """
    text = unicodedata.normalize("NFKC", question).replace("’", "'")
    asked = [word for word in map(_bare, _BREAK.split(text)) if word]
    words = [word for word in asked if word.casefold() not in STOP_WORDS | _ASKING]
    if len(words) != 1:
        return None
    (word,) = words
    if [part.casefold() for part in asked[:2]] == ["how", word.casefold()]:
        return None  # "How often?" asks for a measure
    if not _ANY_HAN.search(word):
        return word if len(word) <= MAX_WORD and any(char.isalnum() for char in word) else None
    is_term = _ONLY_HAN.fullmatch(word) and len(word) <= MAX_HAN and not _GRAMMAR.search(word)
    return word if is_term else None


def holds(text: str, term: str) -> bool:
    """Whether `term` stands in `text` as a word: "go" is not in "good", "索引" is in "建立索引".

    Words are compared as full text compares them: without case and width, by their stem,
    Traditional as Simplified. A compound of four Chinese characters also counts where its halves
    stand apart ("报销流程" in "报销的流程").
    """
    wanted, found = analyze(term), analyze(text)
    if not wanted:
        # A word that full text leaves out stands in every passage.
        return True
    if _ONLY_HAN.fullmatch(term):
        if len(term) == 1:
            return any(wanted[0] in word for word in found)
        if len(term) == MAX_HAN and {wanted[0], wanted[2]} <= set(found):
            return True
    size = len(wanted)
    places = (at for at in range(len(found) - size + 1) if found[at : at + size] == wanted)
    return any(not (at and _with_sign(found[at - 1], wanted[0])) for at in places)


def _with_sign(whole: str, word: str) -> bool:
    """Whether the term in front of a word is that word with its signs: the c of c++ is no C."""
    return whole != word and whole.strip("+#.") == word


def effective(query: Query, hits: Sequence[Hit]) -> bool:
    """Whether a search found what `query` asks for: a term where it stands, else anything.

    Title and context of a passage count. Give it to `first_effective`, with the question as asked.
    """
    term = core_term(query.text)
    if term is None:
        return bool(hits)
    return any(holds(f"{hit.title}\n{hit.chunk.embedding_text}", term) for hit in hits)


async def confirmed(query: Query, hits: list[Hit]) -> list[Hit]:
    """The selector: all hits where the search was effective, else none, so that the question is refused."""
    if effective(query, hits):
        return hits
    note(unconfirmed=core_term(query.text))
    return []


def _bare(word: str) -> str:
    word = word.strip(_ENDS).rstrip(".:")
    return _FRAME.sub("", word) if _ANY_HAN.search(word) else word
