"""Make docs/acceptance.md: every row of tests/acceptance_rows.toml and the tests that name it.

    python tests/acceptance_table.py           writes docs/acceptance.md (`make acceptance`)

A test names a row by its id as a word of its name (`test_a39_...`) or of its docstring ("row A39").
Docstrings of modules and classes do not count. A contract suite's tests count where they are written.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "tests" / "acceptance_rows.toml"
TABLE = ROOT / "docs" / "acceptance.md"
TESTS = (ROOT / "tests", ROOT / "src" / "ragstone" / "testing")

_ID = re.compile(r"\b(?:A\d{2,3}|W\d{2}|[DC]\d{1,2})\b")

_INTRODUCTION = """\
# Acceptance

What Ragstone must do, row by row, and the tests that prove it. Made by `make acceptance` from
[the rows](../tests/acceptance_rows.toml) and from the tests that name them in their name or
docstring; a test fails when this page is not what that makes.
"""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows by group, what each lacks, and those that no test names yet."""

    groups: Mapping[str, str]
    titles: Mapping[str, Mapping[str, str]]
    lacks: Mapping[str, str]

    @property
    def ids(self) -> list[str]:
        return [row for group in self.groups for row in self.titles[group]]


def read_rows(path: Path = ROWS) -> Rows:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    groups: dict[str, str] = data["groups"]
    return Rows(
        groups=groups,
        titles={group: data[group] for group in groups},
        lacks=data["open"],
    )


def named_rows(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The row ids in a test's name and docstring."""
    words = function.name.replace("_", " ").upper()
    return set(_ID.findall(f"{words}\n{ast.get_docstring(function) or ''}"))


def each_test(path: Path) -> Iterator[tuple[str, set[str]]]:
    """(name, row ids) of each test in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            yield node.name, named_rows(node)


def proofs(root: Path = ROOT) -> dict[str, dict[str, list[str]]]:
    """Row id -> file below `root` -> the tests in it that name the row."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for folder in TESTS:
        for path in sorted(folder.rglob("*.py")):
            for name, rows in each_test(path):
                for row in rows:
                    found[row][path.relative_to(root).as_posix()].append(name)
    return {
        row: {path: sorted(set(names)) for path, names in by_file.items()} for row, by_file in found.items()
    }


def state(row: str, rows: Rows, proved: Mapping[str, Mapping[str, list[str]]]) -> str:
    """What stands in the last column; "" for a row that has neither test nor reason."""
    links = "; ".join(
        f"[{Path(path).stem}](../{path}): {', '.join(f'`{name}`' for name in names)}"
        for path, names in proved.get(row, {}).items()
    )
    lack = rows.lacks.get(row, "")
    if links:
        return f"{links}. Open: {lack}" if lack else links
    return f"open: {lack}" if lack else ""


def table() -> str:
    rows, proved = read_rows(), proofs()
    done = sum(row in proved for row in rows.ids)
    lines = [_INTRODUCTION, f"Tests name {done} of {len(rows.ids)} rows.", ""]
    for group, title in rows.groups.items():
        lines += [f"## {title}", "", "| row | what | proved by |", "| --- | --- | --- |"]
        lines += [
            f"| {row} | {what} | {state(row, rows, proved)} |" for row, what in rows.titles[group].items()
        ]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
