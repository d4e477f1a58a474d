"""Values as the objects that `--json` prints. The names are a contract: add, never rename."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from ragstone.audit import needs_review
from ragstone.cli.words import language, say, told
from ragstone.highlight import highlights
from ragstone.messages import known
from ragstone.place import Place
from ragstone.types import Answer, Chunk, Citation, Document, Hit, SearchResult, Step

if TYPE_CHECKING:
    from ragstone.ingest import FileResult, IngestEvent, IngestResult
    from ragstone.kb.bases import BaseInfo
    from ragstone.kb.documents import DocumentInfo
    from ragstone.kb.evaluation import Evaluation
    from ragstone.kb.facade import Found
    from ragstone.kb.keys import KeyInfo
    from ragstone.kb.reindex import Reindexed
    from ragstone.kb.syncing import SyncResult
    from ragstone.store.deletion import Proof

Json = dict[str, object]


def search_json(query: str, result: SearchResult, names: Mapping[str, str], files: Mapping[str, str]) -> Json:
    return {
        "query": query,
        "hits": [
            {**hit_json(rank, hit, names, files), "highlights": _highlights(query, hit)}
            for rank, hit in enumerate(result.hits, 1)
        ],
        "timings_ms": timings_json(result.trace),
        "degraded": result.degraded,
    }


def _highlights(query: str, hit: Hit) -> list[Json]:
    """As `start` and `end` of the hit: in the document's text."""
    start = hit.chunk.start
    return [
        {"start": start + first, "end": start + last} for first, last in highlights(query, hit.chunk.text)
    ]


def answer_json(query: str, answer: Answer, names: Mapping[str, str], files: Mapping[str, str]) -> Json:
    return {
        "query": query,
        "answer": answer.text,
        "answered": answer.answered,
        "partial": answer.partial,
        "needs_review": needs_review(answer.audit),
        "mode": answer.mode,
        "citations": [citation_json(citation, files) for citation in answer.citations],
        "hits": [hit_json(rank, hit, names, files) for rank, hit in enumerate(answer.hits, 1)],
        "audit": answer.audit,
        "timings_ms": timings_json(answer.trace),
        "degraded": answer.degraded,
    }


def hit_json(rank: int, hit: Hit, names: Mapping[str, str], files: Mapping[str, str]) -> Json:
    return {
        "rank": rank,
        "chunk_id": hit.chunk.chunk_id,
        "document_id": hit.chunk.document_id,
        "base": names.get(hit.base_id, hit.base_id),
        "title": hit.title,
        "name": files.get(hit.chunk.document_id, ""),
        "uri": hit.uri,
        **place_json(hit.chunk.place(), hit.chunk.page),
        "start": hit.chunk.start,
        "end": hit.chunk.end,
        "text": hit.chunk.text,
        "metadata": hit.chunk.metadata,
        # The latest value where two stages share a scale.
        "scores": {score.scale: score.value for score in hit.scores},
    }


def citation_json(citation: Citation, files: Mapping[str, str]) -> Json:
    return {
        "n": citation.n,
        "chunk_id": citation.chunk_id,
        "document_id": citation.document_id,
        "uri": citation.uri,
        "title": citation.title,
        "name": files.get(citation.document_id, ""),
        **place_json(citation.place, citation.page),
        "start": citation.start,
        "end": citation.end,
        "quote": citation.quote,
    }


def place_json(place: Place, page: int | None) -> Json:
    return {"page": page, "page_end": place.page_end or page, "place": asdict(place)}


def timings_json(trace: Iterable[Step]) -> dict[str, float]:
    """Milliseconds by stage; a stage that ran several times counts together."""
    total: dict[str, float] = {}
    for step in trace:
        total[step.stage] = total.get(step.stage, 0.0) + step.seconds * 1_000
    return {stage: round(milliseconds, 3) for stage, milliseconds in total.items()}


def document_json(document: Document) -> Json:
    return {
        "uri": document.uri,
        "title": document.title,
        "media_type": document.media_type,
        "text": document.text,
        "pages": [{"number": page.number, "start": page.start, "end": page.end} for page in document.pages],
        "headings": [
            {"path": heading.path, "start": heading.start, "end": heading.end}
            for heading in document.headings
        ],
        "boxes": [
            {
                "page": box.page,
                "start": box.start,
                "end": box.end,
                "x0": box.x0,
                "y0": box.y0,
                "x1": box.x1,
                "y1": box.y1,
            }
            for box in document.boxes
        ],
        "metadata": document.metadata,
        "warnings": [remark.text(language()) for remark in document.warnings],
    }


def info_json(info: DocumentInfo) -> Json:
    return {
        "document_id": info.document_id,
        "base": info.base,
        "uri": info.uri,
        "title": info.title,
        "name": info.name,
        "media_type": info.media_type,
        "chunks": info.chunks,
        "characters": info.characters,
        "pages": info.pages,
        "warnings": [remark.text(language()) for remark in info.warnings],
        "created_at": info.created_at,
        "updated_at": info.updated_at,
    }


def base_json(info: BaseInfo) -> Json:
    return {
        "base_id": info.base_id,
        "name": info.name,
        "model": info.model,
        "documents": info.documents,
        "chunks": info.chunks,
        "created_at": info.created_at,
        "generation_id": info.generation_id,
    }


def key_json(info: KeyInfo) -> Json:
    return {
        "key_id": info.key_id,
        "name": info.name,
        "prefix": info.prefix,
        "role": info.role,
        "bases": info.bases,
        "per_minute": info.per_minute,
        "created_at": info.created_at,
        "expires_at": info.expires_at,
        "revoked_at": info.revoked_at,
        "last_used_at": info.last_used_at,
    }


def proof_json(proof: Proof) -> Json:
    return {
        "document_id": proof.document_id,
        "deleted_at": proof.deleted_at,
        "deleted": proof.deleted,
        "left": proof.left,
        "untold": proof.untold,
        "complete": proof.complete,
    }


def reindexed_json(base: str, result: Reindexed) -> Json:
    return {
        "base": base,
        "swapped": result.swapped,
        "generation_id": result.generation.generation_id,
        "model": result.generation.model,
        "settings": result.generation.settings,
        "documents": result.generation.documents,
        "chunks": result.generation.chunks,
        "embedded": result.embedded,
        "reused": result.reused,
        "before": {
            "generation_id": result.before.generation_id,
            "model": result.before.model,
            "settings": result.before.settings,
        },
    }


def chunk_json(chunk: Chunk) -> Json:
    return {
        "chunk_id": chunk.chunk_id,
        "index": chunk.index,
        "start": chunk.start,
        "end": chunk.end,
        **place_json(chunk.place(), chunk.page),
        "headings": chunk.headings,
        "context": chunk.context,
        "parent": chunk.parent,
        "text": chunk.text,
        "metadata": chunk.metadata,
    }


def event_json(event: Found | IngestEvent) -> Json:
    from ragstone.ingest import ChunksEmbedded, FileResult, PagesRead

    if isinstance(event, FileResult):
        return {"event": "file", **file_json(event)}
    if isinstance(event, PagesRead):
        return {
            "event": "pages",
            "uri": event.uri,
            "name": event.name,
            "done": event.done,
            "pages": event.pages,
        }
    if isinstance(event, ChunksEmbedded):
        return {"event": "chunks", "chunks": event.chunks, "reused": event.reused}
    return {"event": "found", "files": event.files, "bytes": event.bytes}


def file_json(file: FileResult) -> Json:
    error = file.error
    return {
        "uri": file.uri,
        "name": file.name,
        "status": file.status,
        "document_id": file.document_id,
        "chunks": file.chunks,
        "warnings": [remark.text(language()) for remark in file.warnings],
        "error": None if error is None else {"code": error.code, "message": told(error)},
    }


def summary_json(base: str, result: IngestResult, seconds: float) -> Json:
    return {
        "event": "summary",
        "base": base,
        "files": len(result.files),
        "ready": result.count("ready"),
        "unchanged": result.count("unchanged"),
        "failed": result.count("failed"),
        "chunks": result.chunks,
        "embedded": result.embedded,
        "reused": result.reused,
        "tokens": result.tokens,
        "seconds": round(seconds, 3),
        "stage_seconds": {stage: round(spent, 3) for stage, spent in result.seconds.items()},
        "failures": [file_json(file) for file in result.files if file.status == "failed"],
    }


def sync_json(base: str, result: SyncResult, seconds: float) -> Json:
    return {
        **summary_json(base, result.ingest, seconds),
        "dry_run": result.dry_run,
        "added": result.added,
        "updated": result.updated,
        "deleted": len(result.gone),
        "gone": result.gone,
        "chunks_deleted": result.chunks_deleted,
        "deleted_rows": result.deleted.rows,
        "outside": result.outside,
    }


def evaluation_json(mode: str, result: Evaluation) -> Json:
    return {
        "mode": mode,
        "queries": result.queries,
        **{name: round(value, 4) for name, value in result.metrics.items()},
        "index_s": round(result.index_s, 3),
        "index_cpu_s": round(result.index_cpu_s, 3),
        "queries_per_s": round(result.queries_per_s, 2),
        "p50_ms": round(result.p50_ms, 2),
        "p95_ms": round(result.p95_ms, 2),
        "passages": result.passages,
        "failed": result.failed,
    }


def degraded_text(code: str) -> str:
    """What a step that could not be taken as configured means for the reader."""
    key = f"cli.degraded_{code}"
    return say(key) if known(key) else say("cli.step_down", code=code)
