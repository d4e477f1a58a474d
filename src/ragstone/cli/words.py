"""Sentences in the language of the user."""

from __future__ import annotations

from ragstone.errors import RagstoneError
from ragstone.kb.settings import user_language
from ragstone.messages import render


def say(key: str, /, **values: object) -> str:
    """The sentence `key` (`area.name`) in the user's language."""
    return render(key, user_language(), **values)


def told(error: RagstoneError) -> str:
    """What an error says, in the user's language."""
    return error.text(user_language())
