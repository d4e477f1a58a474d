"""The acceptance documents beside the checkout, each through the parser pool and the default cleaner.

`expect` is held as the data's README says: phrases are looked for after NFKC, without
white space and soft hyphens, in lower case.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from ragstone.clean import clean
from ragstone.errors import ContentError, NoText
from ragstone.parse import ocr
from ragstone.parse.sandbox import ParserPool
from ragstone.types import Blob, Document
from shared_data import SHARED, SHOWN

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not (SHARED / "data/docs").is_dir(), reason="the acceptance documents are not beside the checkout"
    ),
]

DOCS = SHARED / "data" / "docs"
NOT_READ_YET = frozenset({"parse.not_read_yet", "parse.archive"})
UNCLEAR = frozenset({"parse.crashed", "parse.timeout", "parse.memory", "parse.start"})
# Every row of these kinds must hold; others may be refused as not read yet.
REQUIRED = (
    "txt", "md", "html", "pdf", "doc", "docx", "ppt", "pptx", "xls", "xlsx", "xlsb", "odt", "ods", "odp",
    "rtf", "epub", "fb2", "msg", "csv", "json", "xml", "macro", "filename",
    "wrong_extension", "encrypted_office", "eml", "zip", "image",
)  # fmt: skip
CONTAINERS = ("eml", "zip", "zip_bomb", "zip_broken", "pdf_attachment", "eml_empty", "msg")


@dataclass(frozen=True)
class Outcome:
    row: dict[str, Any]
    document: Document | None = None
    error: ContentError | None = None

    @property
    def name(self) -> str:
        return f"{self.row['kind']}/{self.row['expect']} {self.row['path']}"


def squashed(text: str) -> str:
    kept = (c for c in unicodedata.normalize("NFKC", text) if not c.isspace() and c != "\u00ad")
    return "".join(kept).casefold()


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    lines = (DOCS / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


async def read_all(rows: list[dict[str, Any]]) -> list[Outcome]:
    pool, outcomes = ParserPool(workers=2, timeout=240), list[Outcome]()

    async def read(row: dict[str, Any]) -> None:
        path = DOCS / row["path"]
        blob = Blob(uri=path.as_uri(), name=path.name, data=path.read_bytes())
        try:
            outcomes.append(Outcome(row, document=clean(await pool(blob))))
        except ContentError as error:
            outcomes.append(Outcome(row, error=error))

    try:
        with anyio.fail_after(600):
            async with anyio.create_task_group() as tasks:
                for row in rows:
                    tasks.start_soon(read, row)
    finally:
        await pool.aclose()
    return outcomes


def broken_rule(outcome: Outcome) -> str:
    """What `expect` asks for and the outcome does not give; empty when all is well."""
    row, document, error = outcome.row, outcome.document, outcome.error
    if document is not None:
        bad = [phrase for phrase in row["must_not_contain"] if phrase in document.text]
        missing = [p for p in row["must_contain"] if squashed(p) not in squashed(document.text)]
        if bad:
            return f"holds {bad}"
        if row["expect"] in ("reject", "empty"):
            return f"read {document.text[:60]!r}"
        if missing and row["expect"] != "any_no_crash" and not row["reader_dependent"]:
            return f"misses {missing}"
        return ""
    assert error is not None
    if error.key in UNCLEAR:
        return str(error)
    if row["expect"] == "extract":
        return str(error)
    if row["expect"] == "ocr_optional" and (ocr.installed() or not isinstance(error, NoText)):
        return str(error)
    return ""


async def test_every_acceptance_document_is_read_or_refused_with_a_reason(
    rows: list[dict[str, Any]], record_property: Callable[[str, object], None]
) -> None:
    outcomes = await read_all(rows)
    assert len(outcomes) == len(rows) == 285
    later: Counter[str] = Counter()
    failures: list[str] = []
    for outcome in outcomes:
        rule = broken_rule(outcome)
        waits = outcome.error is not None and outcome.error.key in NOT_READ_YET
        if rule and waits and not outcome.row["kind"].startswith(REQUIRED):
            later[outcome.row["kind"]] += 1
        elif rule:
            failures.append(f"{outcome.name}: {rule}")
    table = ["kind: files, hold, read, not read yet"]
    for kind in sorted({row["kind"] for row in rows}):
        some = [outcome for outcome in outcomes if outcome.row["kind"] == kind]
        hold = sum(not broken_rule(outcome) for outcome in some)
        read = sum(outcome.document is not None for outcome in some)
        table.append(f"{kind}: {len(some)}, {hold}, {read}, {later[kind]}")
    table.append(f"all: {len(rows)}, {len(rows) - len(failures) - sum(later.values())} hold")
    record_property(SHOWN, "\n".join(table))
    assert not failures, "\n".join(failures)


async def test_every_container_gives_its_members_or_says_why(
    rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pool, found = ParserPool(workers=1, timeout=240), dict[str, list[str]]()
    for row in rows:
        if row["kind"] not in CONTAINERS:
            continue
        path = DOCS / row["path"]
        blob = Blob(uri=path.as_uri(), name=path.name, data=path.read_bytes())
        names = found.setdefault(path.name.partition("__")[2], [])
        try:
            with anyio.fail_after(60):
                async for member in pool.unpack(blob):
                    mark = "" if isinstance(member, Blob) else f" {member.error.code}"
                    names.append(member.uri.removeprefix(blob.uri + "!/") + mark)
        except ContentError as error:
            names.append(error.key)
    await pool.aclose()
    assert not UNCLEAR & {name for names in found.values() for name in names}
    assert found["zip_slip.zip"] == ["a.txt", "../../evil.txt parse.member_path", "sub/b.md"]
    assert "%E5%AE%A1%E8%AE%A1" in found["gbk.zip"][0]
    assert found["droste.zip"][-1].endswith("droste.zip parse.member_deep")
    assert any("parse.member_bomb" in name for name in found["nested_bomb.zip"])
    assert found["with-attachment.pdf"] == ["image.png"]
    assert found["testPDFPackage.pdf"] == ["PDF1.pdf", "PDF2.pdf"]
    assert found["msg_with_attachment.msg"] == ["test.txt", "report.pdf"]
    assert found["eml_with_attachment.eml"] == ["test.txt"]
    assert found["attachment_message_rfc822.eml"] == [
        "ForwardedMessage.eml",
        "ForwardedMessage.eml!/broken.pdf",
    ]
    assert list(tmp_path.iterdir()) == []


async def test_front_matter_code_and_underlined_headings_give_the_path_of_a_row(
    rows: list[dict[str, Any]],
) -> None:
    (outcome,) = await read_all([r for r in rows if "front_matter_code_table" in r["path"]])
    assert outcome.document is not None
    text = outcome.document.text
    place = text.index("pg_restore")
    path = next(s.path for s in outcome.document.headings if s.start <= place < s.end)
    assert path[-2:] == ("备份策略", "恢复步骤")


async def test_the_marker_of_each_chapter_is_on_a_page_after_the_one_before(
    rows: list[dict[str, Any]],
) -> None:
    (outcome,) = await read_all([r for r in rows if "zh_130_pages" in r["path"]])
    assert outcome.document is not None
    text, pages = outcome.document.text, outcome.document.pages
    found = [
        next(p.number for p in pages if p.start <= text.index(f"ZX{n:04}") < p.end) for n in range(1, 131)
    ]
    assert found == sorted(found)
    assert len(set(found)) == 130
    assert pages[-1].end == len(text)
