"""Sentences in the language of the user."""

from __future__ import annotations

from functools import lru_cache

from ragstone.errors import RagstoneError
from ragstone.kb.settings import user_language
from ragstone.messages import Language, render


@lru_cache
def language() -> Language:
    """The language to speak, looked up once a process: it may stand in a file."""
    return user_language()


def say(key: str, /, **values: object) -> str:
    """The sentence `key` (`area.name`) in the user's language."""
    return render(key, language(), **values)


def told(error: RagstoneError) -> str:
    """What an error says, in the user's language."""
    return error.text(language())
