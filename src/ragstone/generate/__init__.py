"""From a prompt to the answer's text, piece by piece: by a chat model, or by quoting.

`visible` stands behind every generator: it removes reasoning, decides whether the text is
an answer at all, and drops citation markers that no passage has.
"""

from __future__ import annotations

from ragstone.generate.extractive import ExtractiveGenerator
from ragstone.generate.model import ModelGenerator
from ragstone.generate.visible import NO_ANSWER, VisibleStream, visible, without_thinking

__all__ = [
    "NO_ANSWER",
    "ExtractiveGenerator",
    "ModelGenerator",
    "VisibleStream",
    "visible",
    "without_thinking",
]
