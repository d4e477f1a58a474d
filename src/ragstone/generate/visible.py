"""What of a generator's text a reader sees: one state machine for streams and whole texts.

    raw deltas -> reasoning removed -> answer or no answer? -> unknown markers removed

However the text is cut into deltas, the result is the same (row W15).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, cast

from ragstone.cite import StreamCiter
from ragstone.types import Delta, Usage

NO_ANSWER = "<no-answer/>"
"""What a generator begins with when the passages do not answer."""

_REASONING = r"(?:think|thinking|thought|reasoning|analysis)"
_TAG = re.compile(
    rf"(?<!`)(?:(?P<close></{_REASONING}>|◁/think▷)|(?P<open><{_REASONING}>|◁think▷)"
    # The channels of OpenAI's harmony format: only `final` is for the reader.
    r"|(?P<channel>(?:<\|start\|>assistant)?<\|channel\|>(?P<name>[a-z]{1,20})[^<\n]{0,80}<\|message\|>)"
    r"|(?P<end><\|end\|>|<\|return\|>|<\|start\|>assistant)"
    r"|(?P<mark><no-answer\s*/?>))",
    re.IGNORECASE,
)
_LONGEST_TAG = 160
_MAYBE_TAG = re.compile(
    r"`?(?:</?[a-z]{0,9}|<no-a?n?s?w?e?r?\s?/?|◁/?[a-z]{0,5}|<\|[^\n]{0,120})?\Z", re.IGNORECASE
)


class TagFilter:
    """Removes reasoning: a `<think>` block at the start of a line, closed or not.

    A closing tag without an opening one ends reasoning as well: what came before it is
    dropped, and `retracted` is true when some of that had been given out. A `NO_ANSWER`
    after the first words is dropped. Tags behind a backtick and `<think>` within a
    sentence are text.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._thinking = False
        self._mentioned = False
        self._line_blank = True
        self._shown: list[str] = []
        self._spoke = False
        self.retracted = False

    @property
    def text(self) -> str:
        return "".join(self._shown)

    def feed(self, piece: str) -> str:
        self._pending += piece
        return self._advance(final=False)

    def finish(self) -> str:
        return self._advance(final=True)

    def _advance(self, *, final: bool) -> str:
        given, first, at = bool(self._shown), len(self._shown), 0
        for tag in _TAG.finditer(self._pending):
            self._show(self._pending[at : tag.start()])
            at = tag.end()
            if self._read_tag(tag):
                self.retracted = self.retracted or given
                given, first = False, 0
        held = _MAYBE_TAG.search(self._pending, max(at, len(self._pending) - _LONGEST_TAG))
        cut = len(self._pending) if final or held is None else held.start()
        self._show(self._pending[at:cut])
        self._pending = self._pending[cut:]
        return "".join(self._shown[first:])

    def _read_tag(self, tag: re.Match[str]) -> bool:
        """Act on a tag; true when it ended reasoning that nothing had opened."""
        if tag["mark"] is not None:
            if not self._spoke:
                self._show(tag.group())
        elif tag["end"] is not None:
            self._thinking = False
        elif tag["channel"] is not None:
            self._thinking = tag["name"].lower() != "final"
        elif self._thinking:
            self._thinking = not tag["close"]
        elif not tag["close"] and self._line_blank:
            self._thinking = True
        elif tag["close"] and not self._mentioned:
            self._shown.clear()
            self._line_blank, self._spoke = True, False
            return True
        else:
            self._mentioned = True
            self._show(tag.group())
        return False

    def _show(self, text: str) -> None:
        if not self._shown:
            text = text.lstrip()
        if self._thinking or not text:
            return
        self._shown.append(text)
        self._spoke = self._spoke or any(map(str.isalnum, text))
        _, newline, last = text.rpartition("\n")
        self._line_blank = not last.strip() and (self._line_blank or bool(newline))


def without_thinking(text: str) -> str:
    """A whole output of a chat model without its reasoning, and without white space at its ends."""
    if "<" not in text:
        return text.strip()
    tags = TagFilter()
    tags.feed(text)
    tags.finish()
    return tags.text.strip()


# --- answer or no answer -----------------------------------------------------------

_MARK = re.compile(r"<no-answer\s*/?>(?:</no-answer>)?", re.IGNORECASE)
_DECORATION = re.compile(r"[\s*_>#`~\"'“”「『《\-]*")
_SENTENCE_END = re.compile(r"[。！？!?\n]|\.(?=\s|\Z)")
_CITED = re.compile(r"[\[【［]\s?[\d０-９]")
# Row A79 held back 120 characters; no sentence that only refuses is longer.
_PROBE = 120
_MOST_DECORATION = 1_000
"""Characters of rules, stars and quotes in front of the first word."""
_REFUSING_ZH = (
    r"(?:(?:非常|很|十分)?(?:抱歉|对不起|遗憾)[,，:：、 ]*)?"
    r"(?:(?:根据|依据|在|从)?[^,，。]{0,24}(?:中|内|里|段落|资料|文档|内容|信息)[,，]?)?我?(?:"
    r"并?(?:没有|未|未能|没能)(?:找到|检索到|查到|提到|提及|提供|包含)(?:与.{1,24}?)?(?:任何)?的?"
    r"(?:相关|有关)的?(?:信息|内容|资料)"
    r"|(?:提供的|现有|已有|相关)?信息不足(?:[,，]?(?:以|无法)(?:回答|作答).{0,12})?"
    r"|(?:该|这个|此)?(?:问题)?超出了?本?知识库的?范围"
    r"|无法(?:根据|依据|从).{1,16}(?:回答|作答|得出答案).{0,12}"
    r"|不知道(?:答案)?)"
)
_REFUSING_EN = (
    r"(?:(?:i am|i'm|we are|we're)? ?(?:very |so )?sorry[,;.]? ?(?:but )?)?(?:unfortunately,? )?(?:"
    r"i (?:do not|don't) know(?: the answer)?"
    r"|i (?:cannot|can't|can not|could not|couldn't|am unable to|am not able to) (?:answer|find)\b"
    r"[^.\[]{0,80}"
    r"|(?:there is |there's )?no relevant (?:information|passages?|content)"
    r"(?: (?:was|were|is|could be) found)?[^.\[]{0,40}"
    r"|(?:the|these|those) (?:provided |given |numbered |available )?"
    r"(?:passages?|documents?|context|information|text) (?:do|does|did) ?(?:not|n't)"
    r" (?:contain|provide|include|mention|answer|hold)\b[^.\[]{0,60})"
)
_REFUSING = re.compile(f"{_REFUSING_ZH}|{_REFUSING_EN}", re.IGNORECASE)


class _Judge:
    """Holds text back until it is known whether it is an answer.

    No answer is a text that begins with the marker, that is blank, or whose first sentence
    as a whole says so while nothing in the text cites a passage (row A78).
    """

    def __init__(self) -> None:
        self._held = ""
        self._looked_at = 0
        self.answered: bool | None = None

    def feed(self, piece: str, *, final: bool = False) -> str:
        if self.answered is not None:
            return piece if self.answered else ""
        self._held += piece
        self.answered = self._verdict(final)
        if not self.answered:
            return ""
        held, self._held = self._held, ""
        return held

    def _verdict(self, final: bool) -> bool | None:
        """True, False, or None while it is open."""
        decoration = _DECORATION.match(self._held)
        body = self._held[decoration.end() :] if decoration else self._held
        if _MARK.match(body):
            return False
        if not body:
            return False if final else None if len(self._held) < _MOST_DECORATION else True
        if not final and NO_ANSWER.startswith(body.lower()):
            return None
        # Only what came since the last look, and the bracket before it.
        if _CITED.search(self._held, max(len(self._held) - len(body), self._looked_at - 2)):
            return True
        self._looked_at = len(self._held)
        end = _SENTENCE_END.search(body[:_PROBE])
        if end is None and not final and len(body) < _PROBE:
            return None
        # A full stop at the end of what has come may be the point of a number.
        if end is not None and not final and end.end() == len(body) and end.group() == ".":
            return None
        first = body[: end.start()] if end else body[:_PROBE]
        if _REFUSING.fullmatch(" ".join(first.replace("’", "'").split())) is None:
            return True
        return False if final else None


class _LeadingMark(_Judge):
    """The judge of quoted text: only the marker counts, for documents may say anything."""

    def _verdict(self, final: bool) -> bool | None:
        body = self._held.lstrip()
        if body.startswith(NO_ANSWER) or (final and not body):
            return False
        return None if not final and NO_ANSWER.startswith(body) else True


class VisibleStream:
    """An async iterator of the deltas to show; close it with `aclose()`.

    Afterwards `answered` is the verdict and `text` the text to keep: what the deltas said,
    unless reasoning without an opening tag had been shown before its end was seen. `cut` is
    true when the model's own limit or `limit` characters ended it; reasoning counts too.
    """

    def __init__(
        self, deltas: AsyncIterator[Delta], count: int, *, verbatim: bool = False, limit: int | None = None
    ) -> None:
        self._deltas = deltas
        self._count = count
        self._verbatim = verbatim
        self._left = limit
        self.cut = False
        self._tags = TagFilter()
        self._judge = _LeadingMark() if verbatim else _Judge()
        self._citer = StreamCiter(count)
        self._stream = self._run()

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self._stream

    async def __anext__(self) -> Delta:
        return await anext(self._stream)

    async def aclose(self) -> None:
        await cast(Any, self._stream).aclose()

    @property
    def answered(self) -> bool:
        return self._judge.answered is True

    @property
    def text(self) -> str:
        """The text to keep so far; `NO_ANSWER` when there is no answer."""
        if self._judge.answered is False:
            return NO_ANSWER
        return self._citer.text.strip()

    @property
    def removed(self) -> list[int]:
        """The unknown markers that were taken out."""
        return self._citer.removed

    async def _run(self) -> AsyncIterator[Delta]:
        usage: Usage | None = None
        try:
            async for delta in self._deltas:
                usage = delta.usage or usage
                shown = self._read(self._allowed(delta.text))
                self.cut = self.cut or delta.cut
                if shown:
                    yield Delta(text=shown)
                if self.cut and self._left == 0:
                    break
        finally:
            close = cast(Any, getattr(self._deltas, "aclose", None))
            if close is not None:
                await close()
        last = self._read("", final=True)
        if self._judge.answered is False:
            last = NO_ANSWER
        if last or usage is not None:
            yield Delta(text=last, usage=usage, cut=self.cut)

    def _allowed(self, piece: str) -> str:
        """The piece as far as the limit reaches."""
        if self._left is None:
            return piece
        self.cut = self.cut or len(piece) > self._left
        piece = piece[: self._left]
        self._left -= len(piece)
        return piece

    def _read(self, piece: str, *, final: bool = False) -> str:
        if not self._verbatim:
            piece = self._tags.finish() if final else self._tags.feed(piece)
            if self._tags.retracted:
                self._restart()
        judged = self._judge.feed(piece, final=final)
        shown = self._citer.feed(judged)
        return shown + self._citer.finish() if final else shown

    def _restart(self) -> None:
        self._tags.retracted = False
        self._judge = _Judge()
        self._citer = StreamCiter(self._count)


def visible(
    deltas: AsyncIterator[Delta], count: int, *, verbatim: bool = False, limit: int | None = None
) -> VisibleStream:
    """The deltas to show of an answer written from `count` passages, of `limit` characters at most.

    Without an answer the only text is `NO_ANSWER`. The last delta carries the usage.
    `verbatim` is for generators that quote documents: only a leading `NO_ANSWER` and
    unknown markers are looked at, for a document may itself speak of `<think>` tags.
    """
    return VisibleStream(deltas, count, verbatim=verbatim, limit=limit)
