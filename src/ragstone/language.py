"""Which of the two languages a text is in (pure). Decides prompts and refusals, not search."""

from __future__ import annotations

import re

from ragstone.messages import Language

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
_WORD = re.compile(r"[A-Za-z]+")


def language_of(text: str) -> Language:
    """`zh` when Chinese characters carry at least as much of the text as Latin words do.

    One Latin word counts as much as one Chinese character, so that a Chinese question
    about "Spring Boot" stays Chinese.
    """
    han = len(_HAN.findall(text))
    return "zh" if han and han >= len(_WORD.findall(text)) else "en"
