"""One question to a chat model, from a prompt file in the question's language.

What the stages around retrieval need of a model is small and never worth a failed
answer: a failure, a time-out or an empty output is marked in the trace and gives "".
"""

from __future__ import annotations

from collections.abc import Collection

import anyio

from ragstone.errors import ModelError, ProviderError, ProviderUnavailable
from ragstone.generate.visible import without_thinking
from ragstone.language import language_of
from ragstone.messages import Language
from ragstone.prompts import Template, Wording, parts, worded
from ragstone.protocols import ChatModel
from ragstone.trace import degrade, note, spend
from ragstone.types import Message

ASK_SECONDS = 20.0
"""The longest wait for a model before the answer itself is begun."""


FAILURES = (ProviderError, ModelError, OSError)
"""What a model may fail with; OSError, which holds time-outs, is what other people's adapters raise."""


class Instruction:
    """The prompt `name` with its placeholders, to be asked of `chat`.

    `template` replaces the wording, in both languages or in one; it may have the parts
    `# system` and `# user`.

    Raises:
        InvalidStage: the template lacks a placeholder, or names one that nothing fills (row A10).
    """

    def __init__(
        self,
        chat: ChatModel,
        name: str,
        *,
        placeholders: Collection[str],
        template: Wording | None = None,
        seconds: float = ASK_SECONDS,
    ) -> None:
        self._chat = chat
        self._name = name
        self._seconds = seconds
        self._system: dict[Language, str] = {}
        self._user: dict[Language, Template] = {}
        for language, text in worded(name, template).items():
            found = parts(text)
            self._system[language] = found.get("system", "")
            self._user[language] = Template(
                found.get("user", ""), required=placeholders, name=f"{name}.{language}"
            )

    @property
    def failed(self) -> str:
        """The mark of a failure, such as `rewrite_failed`."""
        return f"{self._name}_failed"

    async def ask(self, question: str, **values: str) -> str:
        """The output without reasoning; "" after a failure, a time-out or an empty output.

        `question` decides the language of the prompt.
        """
        try:
            output = await self.demand(question, **values)
        except FAILURES as error:
            note(**{self.failed: type(error).__name__})
            degrade(self.failed)
            return ""
        if not output:
            self.unusable("blank")
        return output

    async def demand(self, question: str, **values: str) -> str:
        """As `ask`, but failures come through (`FAILURES`)."""
        language = language_of(question)
        system = self._system[language]
        opening = (Message(role="system", content=system),) if system else ()
        asked = Message(role="user", content=self._user[language].render(**values))
        with anyio.move_on_after(self._seconds):
            said = await self._chat.complete((*opening, asked))
            spend(said.usage)
            return without_thinking(said.text)
        raise ProviderUnavailable("chat.timeout", url=self._chat.identity, seconds=self._seconds)

    def unusable(self, reason: str) -> None:
        """Mark that the output could not be used."""
        note(**{self.failed: reason})
        degrade(self.failed)
