"""Prompts as files, one a language, and a renderer that never reads inserted text as a template.

`<name>.<language>.md` lies beside this module. A placeholder is `{name}` in lower case;
every other brace is plain text. A file of two parts has the lines `# system` and `# user`.

Own words go to the `template` of the stage that uses a prompt; `own_prompts` reads a folder
of such files (`RAGSTONE_PROMPTS` of the application).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from ragstone.errors import InvalidSetting, InvalidStage
from ragstone.messages import Language

LANGUAGES: tuple[Language, ...] = ("en", "zh")

Wording: TypeAlias = str | Mapping[Language, str]
"""Own words for a prompt: one text for both languages, or a text a language. What is left out is ours."""

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


def worded(name: str, own: Wording | None) -> dict[Language, str]:
    """The prompt `name` in each language: `own` where it has words for it, else the file."""
    if isinstance(own, str):
        own = dict.fromkeys(LANGUAGES, own)
    return {language: (own or {}).get(language) or prompt_text(name, language) for language in LANGUAGES}


def own_prompts(folder: Path) -> dict[str, dict[Language, str]]:
    """The files `<name>.<language>.md` of a folder, by prompt and language, each for a `template`.

    A file named otherwise is an error, not a silence. Blocking.

    Raises:
        InvalidSetting: no such folder, a name that is no prompt, a file that is blank or no UTF-8.
    """
    if not folder.is_dir():
        raise InvalidSetting("prompt.no_folder", folder=folder)
    ours = {file.name for file in files(__name__).iterdir() if file.name.endswith(".md")}
    found: dict[str, dict[Language, str]] = {}
    for file in sorted(folder.glob("*.md")):
        if file.name not in ours:
            known = ", ".join(sorted({name.partition(".")[0] for name in ours}))
            raise InvalidSetting("prompt.file_unknown", file=file, known=known)
        text = file.read_bytes().decode("utf-8-sig", "replace").strip()
        if not text or "\ufffd" in text:
            raise InvalidSetting("prompt.file_unreadable", file=file)
        name, language, _ = file.name.split(".")
        found.setdefault(name, {})["zh" if language == "zh" else "en"] = text
    return found


def parts(text: str) -> dict[str, str]:
    """The parts under the lines `# system` and `# user`; a text without them is all `user`."""
    pieces = _HEADING.split(text)
    found = {"user": pieces[0].strip()} if pieces[0].strip() else {}
    found.update(zip(pieces[1::2], (piece.strip() for piece in pieces[2::2]), strict=True))
    return found


def refusal(language: Language, own: Wording | None = None) -> str:
    """What the user reads when the documents do not answer."""
    return worded("refusal", own)[language]


def _braced(names: Collection[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)
