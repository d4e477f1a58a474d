"""The ingest path: load -> parse -> clean -> split -> embed -> store, overlapping.

A document is stored whole or not at all; one that fails leaves its reason and the others
go on.
"""

from ragstone.ingest.pipeline import IngestPipeline
from ragstone.ingest.results import (
    ChunksEmbedded,
    FileResult,
    FileStatus,
    IngestEvent,
    IngestResult,
    PagesRead,
)

__all__ = [
    "ChunksEmbedded",
    "FileResult",
    "FileStatus",
    "IngestEvent",
    "IngestPipeline",
    "IngestResult",
    "PagesRead",
]
