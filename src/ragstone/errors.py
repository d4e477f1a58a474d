"""One tree of errors. Whether a retry may help follows from the type, never from the text.

    RagstoneError
    ├── InputError                the caller must change something
    │   ├── InvalidQuery          blank, too long, top-k out of range
    │   ├── InvalidFilter         a filter that cannot be read; says where
    │   ├── InvalidMetadata       a value that cannot be stored; names the key
    │   │   └── ReadOnly          metadata or context of a value is written to; also a TypeError
    │   ├── InvalidSetting        names the setting and where it was read
    │   │   └── NotConfigured     what was asked for needs a setting that is empty
    │   ├── InvalidStage          a pipeline part built with wrong parameters
    │   ├── SourceNotFound        no such file, folder or address
    │   ├── BaseNotFound          says which bases exist
    │   └── MissingExtra          names the extra to install
    ├── NotFound                  a document or chunk that is not there (any more)
    ├── Conflict                  the thing has changed, or is at work, in a way that forbids this now
    ├── AccessError               who asks may not do this
    │   ├── Unauthorized          no key, or one that is wrong, expired or revoked
    │   ├── Forbidden             the key's role does not allow it
    │   └── RateLimited           more requests than the key may make (Transient)
    ├── ContentError              a file that cannot be read; the others go on
    │   ├── UnsupportedContent    no parser for this content
    │   ├── CorruptContent        damaged, or not what it says it is
    │   ├── PasswordRequired      encrypted
    │   ├── NoText                nothing to index (empty, or a scan without OCR)
    │   ├── ContentTooLarge       over a limit
    │   └── ParserFailed          the parser crashed or passed its limits
    ├── ModelError
    │   ├── ModelMismatch         vectors of another model, or of another dimension
    │   ├── ModelUnavailable      the model cannot run on this machine
    │   └── TextTooLong           more tokens than the model reads
    ├── ProviderError             a remote model or service said no
    │   ├── ProviderRejected      4xx: key, model name or request; a retry does not help
    │   │   └── ContentRefused    a content filter refuses this text; others go on
    │   └── ProviderUnavailable   429, 5xx, cut connection   (Transient)
    │       └── ProviderTimeout   silent for too long
    └── StoreError
        ├── StoreUnavailable      cannot connect, restarted (Transient)
        │   └── StoreBusy         no connection became free
        ├── StoreIncompatible     schema newer than the code, no pgvector, other version
        ├── StoreFull             no room left on the disk
        └── ServerFailed          the embedded PostgreSQL did not start

`Transient` marks the types after which the same call may succeed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from shlex import quote
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from ragstone.messages import Language, render


class RagstoneError(Exception):
    """Base of all errors raised on purpose.

    Built from a message key (`area.name` in `ragstone/messages`) and the values the
    sentence names. `str(error)` is English; `error.text("zh")` is Chinese.
    """

    def __init__(self, key: str, /, **values: object) -> None:
        self.key = key
        self.values = values
        super().__init__(render(key, "en", **values))

    @property
    def code(self) -> str:
        """A stable name for machines, such as `parse.password`."""
        return self.key

    def text(self, language: Language) -> str:
        return render(self.key, language, **self.values)

    def __reduce__(self) -> tuple[Callable[..., RagstoneError], tuple[Any, ...]]:
        return _rebuild, (type(self), self.key, {name: _plain(value) for name, value in self.values.items()})


def _plain(value: object) -> object:
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _rebuild(kind: type[RagstoneError], key: str, values: dict[str, object]) -> RagstoneError:
    return kind(key, **values)


def first_error(error: BaseException) -> BaseException:
    """The one error to raise for tasks that failed side by side: ours, where there is one."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        error = (group.subgroup(RagstoneError) or group).exceptions[0]
    return error


class Transient(RagstoneError):
    """The same call may succeed when it is made again."""


class InputError(RagstoneError):
    """The caller must change something."""


class InvalidQuery(InputError):
    """A question, a top-k or a threshold that cannot be searched with."""


class InvalidFilter(InputError):
    """A metadata filter that cannot be read."""


class InvalidMetadata(InputError):
    """Metadata that cannot be stored."""


class ReadOnly(InvalidMetadata, TypeError):
    """Metadata or context of a value is written to."""


class InvalidSetting(InputError):
    """A setting with a wrong value, or one that does not exist."""


class NotConfigured(InvalidSetting):
    """What was asked for needs a setting that is empty."""


class InvalidStage(InputError):
    """A part of a pipeline built with parameters that cannot work."""


class SourceNotFound(InputError):
    """A file, folder or address that is not there."""


class BaseNotFound(InputError):
    """A knowledge base that does not exist."""


class MissingExtra(InputError):
    """A feature whose optional packages are not installed; `extra` is what brings them."""

    def __init__(self, key: str, /, **values: object) -> None:
        super().__init__(key, **{"command": install_command(str(values["extra"])), **values})


def install_command(extra: str) -> str:
    """What adds an extra to this installation: from its folder or wheel, never by a name in an index.

    Ragstone is not published, so whoever takes its name there would run code on our users' machines.
    """
    try:
        installed = distribution("ragstone")
        origin: dict[str, Any] = json.loads(installed.read_text("direct_url.json") or "{}")
        version = installed.version
    except (PackageNotFoundError, ValueError):
        origin, version = {}, "VERSION"
    path = unquote(urlsplit(str(origin.get("url", ""))).path)
    wheel = f"ragstone-{version}-py3-none-any.whl"
    folder: dict[str, Any] = origin.get("dir_info", {})
    editable = "-e " if folder.get("editable") else ""
    return f"{quote(sys.executable)} -m pip install {editable}{quote(f'{path or wheel}[{extra}]')}"


class NotFound(RagstoneError):
    """A document or chunk that is not there."""


class Conflict(RagstoneError):
    """What is asked cannot be done as things stand; the sentence says what is in the way."""


class AccessError(RagstoneError):
    """Who asks may not do this."""


class Unauthorized(AccessError):
    """No key, or one that is wrong, expired or revoked."""


class Forbidden(AccessError):
    """The role of the key does not allow it."""


class RateLimited(AccessError, Transient):
    """More requests than the key may make; the value `seconds` says when to come back."""


class ContentError(RagstoneError):
    """A file that cannot become searchable text."""


class UnsupportedContent(ContentError):
    """No parser reads this content."""


class CorruptContent(ContentError):
    """The file is damaged, or is not what it says it is."""


class PasswordRequired(ContentError):
    """The file is encrypted."""


class NoText(ContentError):
    """The file holds nothing to index."""


class ContentTooLarge(ContentError):
    """The file, or what it unpacks to, is over a limit."""


class ParserFailed(ContentError):
    """The parser crashed, hung or used more memory than allowed."""


class ModelError(RagstoneError):
    """A model cannot be used as asked."""


class ModelMismatch(ModelError):
    """Vectors of one model meet vectors of another."""


class ModelUnavailable(ModelError):
    """The model cannot run here."""


class TextTooLong(ModelError):
    """A text has more tokens than the model reads."""


class ProviderError(RagstoneError):
    """A remote model or service did not do what was asked."""


class ProviderRejected(ProviderError):
    """The provider refuses the request; sending it again does not help."""


class ContentRefused(ProviderRejected):
    """The provider's content filter refuses this text, or stopped this answer."""


class ProviderUnavailable(ProviderError, Transient):
    """The provider is busy, unreachable or too slow."""


class ProviderTimeout(ProviderUnavailable):
    """The provider said nothing in the time it had."""


class StoreError(RagstoneError):
    """Documents cannot be stored or searched."""


class StoreUnavailable(StoreError, Transient):
    """The database cannot be reached at the moment."""


class StoreBusy(StoreUnavailable):
    """Every connection stayed in use for as long as work may wait for one."""


class StoreIncompatible(StoreError):
    """The database is of a version this code cannot use."""


class StoreFull(StoreError):
    """No room is left on the disk."""


class ServerFailed(StoreError):
    """The embedded PostgreSQL did not start."""
