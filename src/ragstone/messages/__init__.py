"""Every sentence a user reads, in English and Chinese, side by side in one file an area.

`messages/<area>.toml` holds a table a key with the fields `en` and `zh`. A key is
written `area.name`; the values it names in braces are filled in by `render`. A test
proves that every key used in the code exists and that both languages name the same
values.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Literal, TypeAlias

Language: TypeAlias = Literal["en", "zh"]


def render(key: str, language: Language = "en", /, **values: object) -> str:
    """The sentence `key` in `language`, its braces filled with `values`.

    Values are inserted as they are and never read as templates.
    """
    area, _, name = key.partition(".")
    return _area(area)[name][language].format_map(values)


def known(key: str, /) -> bool:
    """Whether there is a sentence of this key."""
    area, _, name = key.partition(".")
    return name in _area(area)


@lru_cache
def _area(area: str) -> dict[str, dict[str, str]]:
    return tomllib.loads((files(__name__) / f"{area}.toml").read_text(encoding="utf-8"))
