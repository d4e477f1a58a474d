"""A key that may see base X only: whatever it asks, of whichever endpoint, nothing of base Y comes back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from api import Api, shown
from deployment import Deployment

Ids = Mapping[str, Any]
"""What the names in a path stand for, of one base; `bases` is a list with the base's id."""

OURS = "The night ferry to Halm leaves from pier seven."
CANARY = "Zwergsalamander"
THEIRS = f"The {CANARY} sleeps below pier ninety-one, and the ferry to Halm does not know."
NOWHERE = "0123456789abcdef"


def nothing(ids: Ids) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How an endpoint is called with the ids of one base.

    `own` are the statuses of a call within base X by a key that may do it; that the same call with
    the ids of base Y is refused says something only because this one is not.
    """

    body: Callable[[Ids], Any] = nothing
    query: Callable[[Ids], Any] = nothing
    file: bool = False
    own: tuple[int, ...] = (200,)
    admin: bool = False
    """Only for the role that no key of some bases can have."""


RULES: dict[str, Rule] = {
    "GET /healthz": Rule(),
    "GET /readyz": Rule(),
}


@dataclass(kw_only=True)
class World:
    """Two bases on one server, and the keys that see one of them or both."""

    deployed: Deployment
    mine: dict[str, Any]
    theirs: dict[str, Any]
    keys: dict[str, str]
    canaries: set[str] = field(default_factory=set[str])

    def api(self, key: str) -> Api:
        return Api(self.deployed.client(self.keys[key]))


def operations(deployed: Deployment) -> list[str]:
    """`GET /api/...` of all that the server says it answers, those that destroy last and the widest of them."""
    with deployed.client() as client:
        paths = Api(client).call("GET", "/openapi.json")["paths"]
    found = [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]
    order = {"GET": 0, "POST": 1, "PUT": 1, "PATCH": 1, "DELETE": 2}
    return sorted(found, key=lambda name: (order[name.split()[0]], -name.count("/"), name))


def sent(client: httpx2.Client, name: str, ids: Ids) -> httpx2.Response:
    """This operation with these ids in its path, its query and its body."""
    method, path = name.split()
    rule = RULES[name]
    for parameter in re.findall(r"{(\w+)}", path):
        path = path.replace(f"{{{parameter}}}", str(ids[parameter]))
    options: dict[str, Any] = {"params": rule.query(ids)}
    if rule.file:
        options |= {"files": [("files", ("walk.md", b"A page of the walk."))], "data": rule.body(ids)}
    else:
        options["json"] = rule.body(ids)
    return client.request(method, path, **options)


def names_theirs(name: str) -> bool:
    """Whether the path of the operation names something of a base."""
    return "{" in name


def leaked(world: World, response: httpx2.Response, asked: Ids) -> set[str]:
    """What of base Y is in the answer and was not in the question."""
    said = {str(value) for value in asked.values() if not isinstance(value, list)}
    said |= {str(value) for values in asked.values() if isinstance(values, list) for value in values}
    text = response.text + shown(dict(response.headers))
    return {canary for canary in world.canaries - said if canary in text}
