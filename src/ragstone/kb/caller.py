"""Who asks: the role of a key and the bases it may see.

Every service of the application takes a `Caller`, and what it returns is within `caller.scope`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ragstone.errors import BaseNotFound, Forbidden
from ragstone.types import Scope

AccessRole: TypeAlias = Literal["reader", "editor", "admin"]
ROLES: tuple[AccessRole, ...] = ("reader", "editor", "admin")
"""Each may do what those before it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A reader asks and searches, an editor changes documents too, an admin everything.

    `key_id` is None on a server that asks for no key. `bases` is None for every base.
    """

    key_id: str | None
    role: AccessRole
    bases: frozenset[str] | None = None

    @property
    def scope(self) -> Scope:
        """The most that a search for this caller may see."""
        return Scope(bases=None if self.bases is None else tuple(sorted(self.bases)))

    def sees(self, base_id: str) -> bool:
        return self.bases is None or base_id in self.bases

    def require(self, role: AccessRole) -> None:
        """Raises Forbidden when this caller has a lesser role."""
        if ROLES.index(self.role) < ROLES.index(role):
            raise Forbidden("access.role", role=self.role, needed=role)

    def check_bases(self, base_ids: Sequence[str]) -> None:
        """Raises BaseNotFound for the first base outside of the scope: as if it did not exist."""
        for base_id in base_ids:
            if not self.sees(base_id):
                raise BaseNotFound("access.base", base_id=base_id)


OWNER = Caller(key_id=None, role="admin")
"""Whoever uses the machine itself: the command line, and a server that asks for no key."""
