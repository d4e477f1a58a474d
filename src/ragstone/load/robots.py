"""robots.txt as RFC 9309 has it: which paths a site asks programs to leave alone (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes, urlsplit

MAX_BYTES = 512_000
"""What is read of a robots.txt; RFC 9309 asks for at least 500 KiB."""

MAX_DELAY = 30.0
"""Seconds between two requests that are kept at most, whatever a site asks for."""


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules for one program: (path pattern, allowed), and seconds between requests."""

    rules: tuple[tuple[str, bool], ...] = ()
    delay: float = 0.0

    def allows(self, url: str) -> bool:
        """By the longest pattern that fits; of two as long, the one that allows."""
        parts = urlsplit(url)
        path = _plain(parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        fitting = [(len(pattern), allowed) for pattern, allowed in self.rules if _fits(pattern, path)]
        return max(fitting)[1] if fitting else True


NOTHING = Robots(rules=(("/", False),))
"""What holds while a robots.txt cannot be read because the server fails."""


def read_robots(text: str, agent: str) -> Robots:
    """The groups that name `agent` (a product name), together; else those for `*`."""
    own: list[tuple[str, str]] = []
    general: list[tuple[str, str]] = []
    named = False
    agents: list[str] = []
    in_rules = False
    for field, value in _lines(text):
        if field == "user-agent":
            agents = [*([] if in_rules else agents), value.casefold()]
            in_rules = False
            named = named or agent.casefold() in agents
            continue
        in_rules = True
        if agent.casefold() in agents:
            own.append((field, value))
        if "*" in agents:
            general.append((field, value))
    return _robots(own if named else general)


def _lines(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in text.removeprefix("\ufeff").splitlines():
        field, colon, value = line.partition("#")[0].partition(":")
        field, value = field.strip().casefold(), value.strip()
        if field == "user-agent":
            value = re.split(r"[/\s]", value)[0]
        if colon and field in ("user-agent", "allow", "disallow", "crawl-delay"):
            found.append((field, value))
    return found


def _robots(lines: list[tuple[str, str]]) -> Robots:
    rules = tuple(
        (_plain(value), field == "allow") for field, value in lines if field != "crawl-delay" and value
    )
    delays = [value for field, value in lines if field == "crawl-delay"]
    try:
        delay = float(delays[0]) if delays else 0.0
    except ValueError:
        delay = 0.0
    return Robots(rules=rules, delay=min(max(delay, 0.0), MAX_DELAY) if delay == delay else 0.0)


def _plain(path: str) -> str:
    """The path with one way of writing each character, so that %7E and ~ are the same."""
    return quote(unquote_to_bytes(path), safe="/*$?&=;:@!',()+~")


def _fits(pattern: str, path: str) -> bool:
    """Whether `path` begins with `pattern`, where * is anything and a last $ the end."""
    ends = pattern.endswith("$")
    pieces = pattern.removesuffix("$").split("*")
    if not path.startswith(pieces[0]):
        return False
    place = len(pieces[0])
    for index, piece in enumerate(pieces[1:], 1):
        if ends and index == len(pieces) - 1:
            return path.endswith(piece) and len(path) - len(piece) >= place
        found = path.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return not ends or place == len(path)
