"""docs/blocks.md runs from top to bottom, and each line prints what stands behind it."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "blocks.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


async def printed(code: str, names: dict[str, object]) -> list[str]:
    compiled = compile(code, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = eval(compiled, names)
        if inspect.isawaitable(result):
            await result
    return out.getvalue().splitlines()


@pytest.mark.anyio
async def test_every_block_prints_what_it_promises() -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) > 20
    names: dict[str, object] = {}
    for code in blocks:
        promised = re.findall(r"# -> (.*)", code)
        assert await printed(code, names) == promised, code


def test_blocks_are_short() -> None:
    first, *others = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert [code for code in others if len([line for line in code.splitlines() if line]) > 8] == []
    assert all(len(line) <= 120 for code in (first, *others) for line in code.splitlines())


def test_a101_every_prompt_and_its_placeholders_are_listed() -> None:
    from importlib.resources import files

    from ragstone.prompts import prompt_text

    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[\w`, ]+`) \| .* \| (.*) \|$", page, re.MULTILINE)
    listed = {
        name: set(re.findall(r"`(\w+)`", fields))
        for names, fields in rows
        for name in re.findall(r"\w+", names)
    }
    shipped = {
        path.name.partition(".")[0] for path in files("ragstone.prompts").iterdir() if path.name[-3:] == ".md"
    }
    assert set(listed) == shipped
    for name, fields in listed.items():
        for language in ("en", "zh"):
            assert set(re.findall(r"\{(\w+)\}", prompt_text(name, language))) == fields, name
