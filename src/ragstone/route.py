"""Which retrievers a question goes to. A plain `async def` from Query to retrievers is a router."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from ragstone.errors import InvalidStage, ProviderError
from ragstone.instruct import ASK_SECONDS, FAILURES, Instruction
from ragstone.prompts import Wording
from ragstone.protocols import ChatModel, Retriever
from ragstone.readback import normalised, read_json
from ragstone.trace import degrade, note
from ragstone.types import Query

RouteFallback: TypeAlias = Literal["none", "all", "fail"]


class RouteAll:
    """Every question to every retriever."""

    def __init__(self, *retrievers: Retriever) -> None:
        if not retrievers:
            raise InvalidStage("route.empty")
        self._retrievers = retrievers

    async def __call__(self, query: Query) -> Sequence[Retriever]:
        return self._retrievers


_WORDS = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Route:
    """A retriever and what can be found with it, in words a model understands."""

    description: str
    retriever: Retriever


class LanguageModelRouter:
    """A chat model chooses among named retrievers by their descriptions (row A50).

    It may choose several. A name that does not exist is ignored and noted in the trace.
    When the model fails or chooses none that exists, `fallback` decides: `none` searches
    nothing, `all` searches everything, `fail` raises; the first two mark the answer
    `route_failed`.

    Raises:
        InvalidStage: no routes, a blank name or description, an unknown fallback, a
            template without its placeholders.
        ProviderError, ModelError: with `fail`, when asked.
    """

    def __init__(
        self,
        chat: ChatModel,
        routes: Mapping[str, Route],
        *,
        fallback: RouteFallback = "none",
        template: Wording | None = None,
        seconds: float = ASK_SECONDS,
    ) -> None:
        if not routes:
            raise InvalidStage("route.empty")
        for name, route in routes.items():
            if not normalised(name) or not route.description.strip():
                raise InvalidStage("route.blank", name=name)
        if fallback not in ("none", "all", "fail"):
            raise InvalidStage("route.fallback", value=fallback)
        self._routes = dict(routes)
        self._fallback = fallback
        self._model = Instruction(
            chat, "route", placeholders=("sources", "query"), template=template, seconds=seconds
        )

    async def __call__(self, query: Query) -> Sequence[Retriever]:
        sources = "\n".join(f"- {name}: {route.description}" for name, route in self._routes.items())
        try:
            output = await self._model.demand(query.text, sources=sources, query=query.text)
        except FAILURES as error:
            if self._fallback == "fail":
                raise
            return self._otherwise(type(error).__name__)
        chosen, unknown = self._read(output)
        if unknown:
            note(routes_unknown=unknown)
        if not chosen:
            if self._fallback == "fail":
                raise ProviderError(
                    "route.nothing_chosen", names=", ".join(self._routes), output=output[:200]
                )
            return self._otherwise("nothing chosen")
        note(routes=chosen)
        return [self._routes[name].retriever for name in chosen]

    def _otherwise(self, reason: str) -> Sequence[Retriever]:
        note(route_failed=reason)
        degrade("route_failed")
        return [route.retriever for route in self._routes.values()] if self._fallback == "all" else []

    def _read(self, output: str) -> tuple[list[str], list[str]]:
        """(names that exist, each once and in the order of the routes; names that do not)."""
        by_name = {normalised(name): name for name in self._routes}
        # A source may be named by its place in the list too.
        by_name = {str(n): name for n, name in enumerate(self._routes, 1)} | by_name
        said = [normalised(name) for name in _names(output)]
        chosen = {by_name[name] for name in said if name in by_name}
        if not chosen:  # a sentence that names it
            words = f" {' '.join(_WORDS.findall(normalised(output)))} "
            chosen = {
                name for name in self._routes if f" {' '.join(_WORDS.findall(normalised(name)))} " in words
            }
        unknown = [name[:80] for name in said if name and name not in by_name]
        return [name for name in self._routes if name in chosen], unknown


def _names(output: str) -> list[str]:
    """The names of a JSON list; without one, those separated by commas or lines."""
    value = read_json(output)
    if isinstance(value, dict):
        fields = list(cast("dict[str, Any]", value).values())
        value = next((cast("object", field) for field in fields if isinstance(field, list)), fields)
    if isinstance(value, int):
        value = [value]
    if isinstance(value, list):
        return [str(name) for name in cast("list[Any]", value) if isinstance(name, (str, int))]
    for mark in "\n，、;；":
        output = output.replace(mark, ",")
    return [name.strip(" -*`\"'[]") for name in output.split(",")]
