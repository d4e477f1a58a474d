"""Counts tokens where the model's own tokenizer is not to be had.

An estimate on the high side for the byte-pair vocabularies of today's embedding models:
a Chinese, Japanese or Korean character, a digit, a mark or a symbol is one token, a word
of Latin letters one token for each four letters begun, a word of another script one for
each two.
"""

from __future__ import annotations

import re

_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_CJK = f"{_HAN}\u3040-\u30ff\u1100-\u11ff\uac00-\ud7af"
_LATIN = "A-Za-z\u00c0-\u024f"
_TOKEN = re.compile(rf"[{_CJK}]|[{_LATIN}]{{1,4}}|\d|[^\W\d_{_CJK}{_LATIN}]{{1,2}}|[^\w\s]|_")


class EstimatedTokenizer:
    """Implements `protocols.Tokenizer`. Offsets are exact, the number of tokens is not."""

    def count(self, text: str) -> int:
        return sum(1 for _ in _TOKEN.finditer(text))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in _TOKEN.finditer(text)]
