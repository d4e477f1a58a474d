"""What `serve` and `worker` write to standard error: a line an event, for people or as JSON.

Facts are fields beside a fixed event name. No question, no content and no secret is ever one of
them, and of an exception only its type and the place: its text may quote what was being worked on.
Other libraries are heard from warnings on.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, TypeAlias

from ragstone.errors import RagstoneError, first_error
from ragstone.kb.settings import Settings

EventDict: TypeAlias = MutableMapping[str, Any]
_FRAMES = 6
_REPEATING = ("asyncio", "uvicorn", "ragstone.kb.api.connections")
_MOST_KEPT = 1_000
# psycopg warns of every query whose task is cancelled, and of every connection that is closed
# before the pool has it back: a client that leaves, a server that stops.
_USUAL = frozenset(
    {"query cancellation interrupted (%s): closing connection", "discarding closed connection: %s"}
)


def configure(settings: Settings) -> None:
    """Send the logs of this process to standard error in the form of the settings."""
    import structlog
    from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level, add_logger_name

    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    formatter = ProcessorFormatter(
        foreign_pre_chain=[
            add_log_level,
            add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            ExtraAdder(),
        ],
        processors=[
            ProcessorFormatter.remove_processors_meta,
            _without_text,
            _json() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
    )
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    handler.addFilter(lambda record: record.msg not in _USUAL)
    handler.addFilter(OncePerSecond())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("ragstone").setLevel(settings.log_level.upper())


class OncePerSecond(logging.Filter):
    """Lets a warning or error of a library or of the server's edge through once a second.

    What happens for each connection would otherwise fill the disk when somebody opens thousands.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(_REPEATING):
            return True
        key = (record.name, str(record.msg)[:100])
        if record.created - self._last.get(key, 0.0) < 1.0:
            return False
        if len(self._last) >= _MOST_KEPT:
            self._last.clear()
        self._last[key] = record.created
        return True


def _json() -> Any:
    import structlog

    return structlog.processors.JSONRenderer(ensure_ascii=False, default=str)


def _without_text(logger: Any, method: str, event: EventDict) -> EventDict:
    """`exc_info` as the error's type, its code and the innermost places of its traceback."""
    raised = event.pop("exc_info", None)
    error = raised[1] if isinstance(raised, tuple) else raised  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(error, BaseException):
        return event
    error = first_error(error)
    event["error"] = type(error).__name__
    if isinstance(error, RagstoneError):
        event["code"] = error.code
    places = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    event["where"] = [f"{Path(place.filename).name}:{place.lineno} {place.name}" for place in places]
    return event
