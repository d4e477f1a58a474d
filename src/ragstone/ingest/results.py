"""What a run of ingestion says while it goes and when it is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ragstone.errors import RagstoneError
from ragstone.types import DeletionReport, Remark

FileStatus: TypeAlias = Literal["ready", "unchanged", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """How one file ended. `error` says why a failed one failed."""

    uri: str
    name: str
    status: FileStatus
    document_id: str = ""
    chunks: int = 0
    warnings: tuple[Remark, ...] = ()
    error: RagstoneError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksEmbedded:
    """Progress inside a large file: `chunks` more have a vector; `reused` of them were known."""

    chunks: int
    reused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesRead:
    """Progress inside one file whose pages are read by OCR: `done` of `pages`."""

    uri: str
    name: str
    done: int
    pages: int


IngestEvent: TypeAlias = FileResult | ChunksEmbedded | PagesRead


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """All files of one run, the chunks embedded or reused, tokens the model read, seconds a stage.

    `gone` are the addresses of members that their container no longer holds, `deleted`
    what their deletion removed.
    """

    files: tuple[FileResult, ...] = ()
    embedded: int = 0
    reused: int = 0
    tokens: int = 0
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    gone: tuple[str, ...] = ()
    deleted: DeletionReport = field(default_factory=DeletionReport)

    def count(self, status: FileStatus) -> int:
        return sum(file.status == status for file in self.files)

    @property
    def chunks(self) -> int:
        return sum(file.chunks for file in self.files)
