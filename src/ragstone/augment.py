"""Question and passages to a prompt: numbered, each behind a fence its text cannot close."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from ragstone.language import language_of
from ragstone.messages import Language
from ragstone.prompts import Template, Wording, parts, worded
from ragstone.types import Hit, Message, Prompt, Query

_TITLE_LENGTH = 200


def new_fence() -> str:
    """A word that no document holds: 64 random bits."""
    return f"passage-{secrets.token_hex(8)}"


class CitedContext:
    """The augmenter: rules, earlier messages, then passages [1] to [n] and the question.

    All that comes from a document (title, context, text) stands inside a fence drawn anew
    for each prompt and checked against every passage (row W28). Without hits the prompt
    asks for a polite refusal, or with `allow_empty` is the question alone (row A69): a
    pipeline asks the model then, where it otherwise refuses by itself.

    `metadata_keys` names what of a passage's metadata the model reads, a line `key: value`
    each, where the passage has it (row A70). System messages of the history are left out:
    rules belong into the template.

    `template` replaces the wording, in both languages or in one: parts `# system` and
    `# user`; `{passages}` and `{question}` are required in the latter, `{fence}` may name
    the fence. `empty` replaces what is asked without hits; it names `{question}`.

    Raises:
        InvalidStage: a template without a required placeholder.
    """

    def __init__(
        self,
        *,
        template: Wording | None = None,
        empty: Wording | None = None,
        allow_empty: bool = False,
        metadata_keys: Sequence[str] = (),
        fence: Callable[[], str] = new_fence,
    ) -> None:
        self.allow_empty = allow_empty
        self._metadata_keys = tuple(metadata_keys)
        self._fence = fence
        self._templates = {
            language: _templates(text, language) for language, text in worded("answer", template).items()
        }
        self._empty = {
            language: Template(text, required=("question",), name=f"empty.{language}")
            for language, text in worded("empty", empty).items()
        }

    async def __call__(self, query: Query, hits: Sequence[Hit]) -> Prompt:
        language = language_of(query.text)
        system, user = self._templates[language]
        if hits:
            fence = self._fresh_fence(query, hits)
            passages = "\n\n".join(
                f"[{number}]\n<{fence}>\n{_passage(hit, language, self._metadata_keys)}\n</{fence}>"
                for number, hit in enumerate(hits, start=1)
            )
            opening = [Message(role="system", content=system)] if system else []
            asked = user.render(passages=passages, question=query.text, fence=fence)
        else:
            opening = []
            asked = query.text if self.allow_empty else self._empty[language].render(question=query.text)
        history = [message for message in query.history if message.role != "system"]
        messages = (*opening, *history, Message(role="user", content=asked))
        return Prompt(query=query, messages=messages, passages=tuple(hits))

    def _fresh_fence(self, query: Query, hits: Sequence[Hit]) -> str:
        shown = (_passage(hit, "en", self._metadata_keys) for hit in hits)
        content = "\n".join([query.text, *shown])
        fence = self._fence()
        while fence in content:
            fence += secrets.token_hex(4)
        return fence


def _templates(text: str, language: Language) -> tuple[str, Template]:
    found = parts(text)
    user = Template(
        found.get("user", ""),
        required=("passages", "question"),
        optional=("fence",),
        name=f"answer.{language}",
    )
    return found.get("system", ""), user


def _passage(hit: Hit, language: Language, metadata_keys: Sequence[str]) -> str:
    """Title and page, metadata, context, text. A title the context opens with is not repeated."""
    chunk = hit.chunk
    title = " ".join(hit.title.split())[:_TITLE_LENGTH]
    if title and chunk.context.startswith(title):
        title = ""
    page = chunk.place().text(language) if chunk.page is not None else ""
    heading = " · ".join(part for part in (title, page) if part)
    lines = [
        f"{key}: {' '.join(str(chunk.metadata[key]).split())}"
        for key in metadata_keys
        if key in chunk.metadata
    ]
    return "\n".join(part for part in (heading, *lines, chunk.context, chunk.text) if part)
