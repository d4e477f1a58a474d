"""The shared filter cases that today's language (`==`, `and`) can say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import InvalidFilter
from ragstone.filters import And, Equal, Filter, matches, parse
from ragstone.metadata import checked

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
if not CASES.is_dir():
    pytest.skip("no shared cases beside the checkout", allow_module_level=True)

NOT_YET = "needs operators the language does not have yet"


def cases(name: str, tree: str) -> list[Any]:
    """Every line of a file; those whose tree today's language cannot say are skipped, visibly."""
    found: list[Any] = []
    for number, line in enumerate((CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()):
        case = json.loads(line)
        marks = [] if sayable(case[tree]) else [pytest.mark.skip(reason=NOT_YET)]
        found.append(pytest.param(case, id=f"{name}-{case.get('id', number)}", marks=marks))
    return found


def sayable(tree: dict[str, Any]) -> bool:
    if tree["op"] == "and":
        return all(sayable(item) for item in tree["args"])
    return tree["op"] == "==" and not isinstance(tree["value"], (list, type(None)))


def built(tree: dict[str, Any]) -> Filter:
    if tree["op"] == "==":
        return Equal(tree["key"], tree["value"])
    first, *rest = [built(item) for item in tree["args"]]
    for item in rest:
        first = And(first, item)
    return first


@pytest.mark.parametrize("case", cases("filter_parse", "expected_ast"))
def test_parse(case: dict[str, Any]) -> None:
    if case["input"].endswith("3L"):
        # A number with a suffix of another language: refused, never taken for text.
        with pytest.raises(InvalidFilter):
            parse(case["input"])
    else:
        assert repr(parse(case["input"])) == repr(built(case["expected_ast"]))


@pytest.mark.parametrize("case", cases("filter_eval", "filter"))
def test_eval(case: dict[str, Any]) -> None:
    rows = [checked(row) for row in case["rows"]]
    found = [index for index, row in enumerate(rows) if matches(built(case["filter"]), row)]
    assert found == case["expected_matched"]


@pytest.mark.parametrize("case", cases("filter_injection", "filter"))
def test_injection(case: dict[str, Any]) -> None:
    rows = [checked(row) for row in case["rows"]]
    found = [index for index, row in enumerate(rows) if matches(built(case["filter"]), row)]
    # NUL is dropped from stored text, so a value with NUL equals no row.
    assert found == ([] if "\x00" in case["as_value"] else case["expected_matched"])
    assert not any(matches(Equal(case["as_value"], "alice"), row) for row in rows)
