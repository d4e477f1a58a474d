"""The rules of the house that no linter checks: names, messages, sizes, light imports."""

from __future__ import annotations

import ast
import re
import string
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import ragstone
from ragstone import errors
from ragstone.kb.audit import Action
from ragstone.messages import render

SOURCE = Path(ragstone.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
KEY = re.compile(r"[a-z]+\.[a-z](?:[a-z0-9_]*[a-z0-9])?")


def message_files() -> list[Path]:
    return sorted((SOURCE / "messages").glob("*.toml"))


def entries() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for file in message_files():
        for name, entry in tomllib.loads(file.read_text(encoding="utf-8")).items():
            found[f"{file.stem}.{name}"] = entry
    return found


def strings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_public_names_are_sorted_exist_and_are_all_there() -> None:
    assert ragstone.__all__ == sorted(ragstone.__all__)
    for name in ragstone.__all__:
        assert getattr(ragstone, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ragstone.nonsense


def test_names_shown_to_type_checkers_are_those_of_all() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.name for node in ast.walk(block) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert imported - {"Path", "KnowledgeBases"} == set(ragstone.__all__) - {"open"}


def test_every_message_speaks_both_languages_with_the_same_values() -> None:
    for key, entry in entries().items():
        assert set(entry) == {"en", "zh"}, key
        fields = {
            language: {name.partition("!")[0] for _, name, _, _ in string.Formatter().parse(text) if name}
            for language, text in entry.items()
        }
        assert fields["en"] == fields["zh"], key
        assert re.search(r"[\u4e00-\u9fff]", entry["zh"]) or not re.search(r"[a-z]{3}", entry["en"]), key


def test_every_message_key_in_the_code_exists_and_none_is_left_over() -> None:
    areas = {file.stem for file in message_files()}
    used = {
        text
        for module in MODULES
        for text in strings(ast.parse(module.read_text(encoding="utf-8")))
        if KEY.fullmatch(text) and text.partition(".")[0] in areas
    }
    for queries in SOURCE.rglob("*.sql"):
        found = re.findall(r"'([a-z]+\.[a-z_]+)'", queries.read_text(encoding="utf-8"))
        used.update(key for key in found if key.partition(".")[0] in areas)
    known = entries()
    unknown = {
        key
        for key in used
        if key not in known and not (SOURCE / key.replace(".", "/")).with_suffix(".py").exists()
    }
    unknown -= set(get_args(Action))  # what is written into the audit log looks alike
    assert unknown == set()
    # An area may make keys from parts, such as `cli.help_` + command; it then names the prefix in the code.
    prefixes = {
        text
        for module in MODULES
        for text in strings(ast.parse(module.read_text(encoding="utf-8")))
        if re.fullmatch(r"[a-z]+\.[a-z0-9_]*_?", text)
        and text.partition(".")[0] in areas
        and text[-1] in "_."
    }
    left_over = {key for key in known if key not in used and not key.startswith(tuple(prefixes) or ("\0",))}
    assert left_over == set()


def test_d9_every_mark_of_a_step_down_has_its_sentence() -> None:
    codes: set[str] = set()
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = list(strings(ast.Tuple(elts=node.args, ctx=ast.Load())))
            if called == "degrade":
                codes.update(given)
            elif called == "Instruction":  # marks what fails by its name
                codes.add(f"{given[0]}_failed")
    codes.discard("judge_failed")  # a reranker: its failure is `reranker_failed`
    assert {"chat_failed", "embedder_failed", "reranker_failed", "compress_failed"} <= codes
    assert {f"cli.degraded_{code}" for code in codes} <= set(entries())


def test_values_are_inserted_as_they_are_and_never_read_as_templates() -> None:
    assert "{nasty} {0.__class__}" in render("kb.document_not_found", "zh", reference="{nasty} {0.__class__}")


def test_errors_say_the_same_in_both_languages_and_survive_a_process_border() -> None:
    import pickle

    error = errors.InvalidQuery("core.top_k", value=-1, limit=1_000)
    assert "-1" in str(error)
    assert "1,000" in str(error)
    assert "整数" in error.text("zh")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.code, str(copy)) == (errors.InvalidQuery, "core.top_k", str(error))


def test_the_docstring_draws_the_whole_error_tree() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.RagstoneError)
    }
    assert drawn | {"RagstoneError", "Transient"} == defined


def test_no_function_over_60_lines_and_no_module_over_500() -> None:
    too_long: list[str] = []
    for module in MODULES:
        text = module.read_text(encoding="utf-8")
        if len(text.splitlines()) > 500:
            too_long.append(str(module.relative_to(SOURCE)))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > 60:
                    too_long.append(f"{module.relative_to(SOURCE)}:{node.name} ({length})")
    assert too_long == []


def test_importing_ragstone_loads_no_dependency() -> None:
    code = "import sys, ragstone; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numpy", "anyio", "psycopg", "pydantic", "ctranslate2", "tokenizers", "openai"} & set(loaded)
