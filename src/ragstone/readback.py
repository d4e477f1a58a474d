"""What can be read from a chat model's output, however it is wrapped (pure).

Models put reasoning before the answer, introduce it, number it, quote it, fence it, and
add a remark behind it. The rules for all of that are here, once.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, cast

from ragstone.audit import missing_numbers
from ragstone.generate.visible import without_thinking
from ragstone.terms import analyze

MAX_LINE = 500
"""Characters of a search text: a longer line is an answer or an essay, not a question."""

_FENCE = re.compile(r"^[ \t]*(?:```|~~~)\w*[ \t]*$", re.MULTILINE)
_ITEM = re.compile(
    r"^\s*(?:>\s*)?(?:\*\*)?(?:[-*+]\s+|[•·–—]\s*|[(（]?\d{1,2}(?:[.)](?!\d)|[）、．:：])\s*|[①-⑳]\s*"
    r"|(?:q|query|question|问题|查询)\s?(?:\d{1,2}|[一二三四五六七八九十]{1,3})\s*[:：.、]\s*"
    r"|[(（]?[一二三四五六七八九十]{1,3}[)）、．.]\s*|[(（]?[a-z](?:[.)]\s+|[）、．]\s*))(?:\*\*)?\s*",
    re.IGNORECASE,
)
_KINDS = (
    r"re-?written|stand-?alone|revised|improved|optimi[sz]ed|new|final|search|translated"
    r"|step-?back|broader|general"
)
_LABEL = re.compile(
    rf"^(?:(?:here(?: is|'s|’s) )?(?:the |your |a )?(?:(?:{_KINDS}) )*"
    r"(?:query|question|translation|output|answer)"
    r"|(?:(?:改写|重写|优化|翻译|独立|完整|最终|概括|检索)(?:后)?的?){1,3}(?:问题|查询|结果|译文|提问)?|译文|查询)"
    r"\s*[:：]\s*",
    re.IGNORECASE,
)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "「": "」", "『": "』", "`": "`"}
# Only behind a value, so that a text which ends in a comma keeps it.
_TRAILING_COMMA = re.compile(r"(?<=[\"\d\]}el]),\s{0,20}([\]}])")
_TRIES = 50
"""Brackets that may begin the JSON: more would make a hostile output cost seconds."""
_INTRODUCES = (":", "：")
_CHATTER = re.compile(
    r"(?:sure|of course|certainly|absolutely|okay|ok|here (?:are|is))\b.*[.!:]"
    r"|(?:好的|当然|可以|以下是|下面是|如下).*[。！：:]",
    re.IGNORECASE,
)


def read_json(output: str) -> object | None:
    """The first JSON object, else array, in an output; None when there is none."""
    text = without_thinking(output)
    return next(_values(text, "{"), None) or next(_values(text, "["), None)


def read_line(output: str, *, limit: int = MAX_LINE) -> str:
    """The one text a model was asked for, on one line; empty when there is none of a fit length."""
    listed = _listed(leading_json(output)) or _asked_for(output)
    line = _bare(_ITEM.sub("", listed[0])) if listed else ""
    return line if len(line) <= limit else ""


def read_text(output: str, *, limit: int) -> str:
    """Free text of several lines, cut at `limit` characters."""
    lines = _lines(output)
    if lines:
        lines[0] = _LABEL.sub("", lines[0])
    return "\n".join(lines).strip()[:limit].rstrip()


def read_lines(output: str, n: int) -> list[str]:
    """Up to `n` texts of a list: JSON, or a line each; without numbers, bullets and repetitions.

    Where some lines are numbered or bulleted, the others are introduction and remarks.
    """
    listed = _listed(leading_json(output)) or _listed(read_json(output), only_lists=True)
    if listed is None:
        lines = _asked_for(output)
        items = [line for line in lines if _ITEM.match(line)]
        listed = [_ITEM.sub("", line) for line in items] if items else lines
    texts = unique([bare for text in listed if (bare := _bare(text)) and len(bare) <= MAX_LINE])
    return texts[:n]


_REFUSAL = re.compile(
    r"(?:(?:i(?: am|['’]m)|we(?: are|['’]re))? ?(?:very |so |really )?sorry\b|apologies|i apologi[sz]e"
    r"|unfortunately\b|as an? (?:ai|language model|assistant)\b"
    r"|i (?:cannot|can['’]t|can not|could not|couldn['’]t|won['’]t|do not|don['’]t)\b"
    r"|i(?: am|['’]m) (?:unable|not able)\b"
    r"|(?:there is|there['’]s|the conversation has) no (?:question|history|context|information)\b"
    r"|(?:非常|很|十分|真的)?(?:抱歉|对不起|不好意思|遗憾)"
    r"|作为(?:一个|一名)?(?:人工智能|ai|语言模型|助手)"
    r"|(?:我|本助手)?(?:无法|不能|没办法|没法|不方便|不知道|不清楚)"
    r"|(?:没有|未)(?:提供|给出|足够|任何))",
    re.IGNORECASE,
)
_QUESTION_BACK = re.compile(
    r"(?:(?:could|can|would|will) you (?:please )?(?:provide|clarify|specify|give|tell|share|rephrase)\b"
    r"|please (?:provide|clarify|specify|give|tell|share|rephrase)\b|what question\b"
    r"|what (?:do you mean|would you like|exactly)\b|how (?:can|may) i (?:help|assist)\b"
    r"|请(?:您|你)?(?:提供|说明|明确|告诉|补充|澄清|具体)|有什么(?:可以|能)?(?:帮|为)"
    r"|(?:您|你)(?:能否|可以|能|想|是想|具体)(?:再|更)?(?:提供|说明|问|了解|具体))",
    re.IGNORECASE,
)
_STATED = re.compile(r"[.。!！]\W*\Z")


def declines(text: str, question: str) -> bool:
    """Whether a model refuses or asks back instead of rewording `question`; one that begins so itself may."""
    said, asked = (unicodedata.normalize("NFKC", one).strip(" \t\"'“”*_#>-") for one in (text, question))
    return any(mark.match(said) and not mark.match(asked) for mark in (_REFUSAL, _QUESTION_BACK))


def answers(text: str, known: str) -> bool:
    """Whether `text` states a number that `known`, the question and its history, does not hold."""
    return _STATED.search(text) is not None and bool(missing_numbers(text, known))


def shares_a_word(text: str, known: str) -> bool:
    """Whether `text` has a word in common with `known`; one without words of its own has none to share."""
    words = set(analyze(text))
    return not words or not words.isdisjoint(analyze(known))


def unique(texts: list[str]) -> list[str]:
    """The texts, the first of equal ones (row W01)."""
    found: dict[str, str] = {}
    for text in texts:
        found.setdefault(normalised(text), text)
    return list(found.values())


def normalised(text: str) -> str:
    """What two texts have in common that ask the same: no case, width, white space or end mark."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"\s+", " ", folded).strip(" .?!。？！;；,，")


def _lines(output: str) -> list[str]:
    """The lines that are neither blank nor a fence nor an introduction to the next."""
    text = _FENCE.sub("", without_thinking(output))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = 0
    while first < len(lines) - 1 and lines[first].rstrip("*").endswith(_INTRODUCES):
        first += 1
    return lines[first:]


def _asked_for(output: str) -> list[str]:
    """The lines without one in front that only says that something comes."""
    lines = _lines(output)
    return lines[1:] if len(lines) > 1 and _CHATTER.fullmatch(lines[0]) else lines


def _bare(text: str) -> str:
    text = " ".join(text.split()).strip("*_ ")
    text = _LABEL.sub("", text).strip("*_ ")
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    # A mark alone asks nothing.
    return text if any(character.isalnum() for character in text) else ""


def leading_json(output: str) -> object | None:
    """A JSON value that begins a line; one within a sentence may be what the question is about."""
    text = without_thinking(output)
    found = re.search(r"^[ \t]*([{\[])", text, re.MULTILINE)
    return None if found is None else next(_values(text[found.start() :], found[1]), None)


def _listed(value: object, *, only_lists: bool = False) -> list[str] | None:
    """The texts of a JSON list, of an object's list, or of an object."""
    if isinstance(value, dict):
        fields = list(cast("dict[str, Any]", value).values())
        lists = [cast("object", field) for field in fields if isinstance(field, list)]
        value = lists[0] if lists else None if only_lists else fields
    if not isinstance(value, list):
        return None
    texts = (_text(item) for item in cast("list[Any]", value))
    return [text for text in texts if text is not None] or None


def _text(item: Any) -> str | None:
    """A text, or the first one of an object."""
    if isinstance(item, dict):
        inner = cast("dict[str, Any]", item).values()
        return next((text for text in inner if isinstance(text, str)), None)
    return item if isinstance(item, str) else None


def _values(text: str, opening: str) -> Iterator[object]:
    """The JSON values that begin with `opening` and hold something."""
    decoder = json.JSONDecoder()
    text = _TRAILING_COMMA.sub(r"\1", text)
    at = text.find(opening)
    tries = _TRIES
    while at >= 0 and tries:
        tries -= 1
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if value:
                yield value
        at = text.find(opening, end)
