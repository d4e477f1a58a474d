"""Prompts as files, one a language, and a renderer that never reads inserted text as a template.

`<name>.<language>.md` lies beside this module. A placeholder is `{name}` in lower case;
every other brace is plain text. A file of two parts has the lines `# system` and `# user`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from importlib.resources import files

from ragstone.errors import InvalidStage
from ragstone.messages import Language

_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_HEADING = re.compile(r"^# (system|user)[ \t]*$\n?", re.MULTILINE)


class Template:
    """Text with placeholders, filled in one pass: a value is inserted as it is.

    Raises:
        InvalidStage: a `required` placeholder is missing (row A10), or the text names one
            that is neither required nor `optional`.
    """

    def __init__(
        self,
        text: str,
        *,
        required: Collection[str] = (),
        optional: Collection[str] = (),
        name: str = "prompt",
    ) -> None:
        found = set(_PLACEHOLDER.findall(text))
        missing = sorted(set(required) - found)
        if missing:
            raise InvalidStage("prompt.placeholder_missing", name=name, placeholders=_braced(missing))
        unknown = sorted(found - set(required) - set(optional))
        if unknown:
            allowed = _braced([*required, *optional])
            raise InvalidStage(
                "prompt.placeholder_unknown", name=name, placeholders=_braced(unknown), allowed=allowed
            )
        self.text = text

    def render(self, **values: str) -> str:
        """The text with each `{name}` replaced by `values[name]`; KeyError when one is not given."""
        return _PLACEHOLDER.sub(lambda match: values[match.group(1)], self.text)


@lru_cache
def prompt_text(name: str, language: Language) -> str:
    """The file `<name>.<language>.md`, without white space at its ends."""
    return (files(__name__) / f"{name}.{language}.md").read_text(encoding="utf-8").strip()


def parts(text: str) -> dict[str, str]:
    """The parts under the lines `# system` and `# user`; a text without them is all `user`."""
    pieces = _HEADING.split(text)
    found = {"user": pieces[0].strip()} if pieces[0].strip() else {}
    found.update(zip(pieces[1::2], (piece.strip() for piece in pieces[2::2]), strict=True))
    return found


def refusal(language: Language) -> str:
    """What the user reads when the documents do not answer."""
    return prompt_text("refusal", language)


def _braced(names: Collection[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)
