"""docs/application.md says what is: its settings, routes, commands and defaults are those of the code."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

from ragstone.cli.app import COMMANDS
from ragstone.kb.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "application.md").read_text(encoding="utf-8")


def test_every_setting_that_the_page_names_exists() -> None:
    known = {f"RAGSTONE_{item.name.upper()}" for item in fields(Settings)}
    named = set(re.findall(r"RAGSTONE_[A-Z_]+[A-Z]", PAGE))
    assert len(named) > 15
    assert named - known == set()


def test_every_route_that_the_page_names_exists() -> None:
    paths = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))["paths"]
    known = {re.sub(r"\{\w+\}", "{}", path) for path in paths} | {"/openapi.json"}
    named = re.findall(r"(?<![\w.])/(?:api/[\w/{}-]*[\w}]|healthz|readyz|openapi\.json)", PAGE)
    shown = {re.sub(r"\{\w+\}|BASE_ID", "{}", path) for path in named}
    assert len(shown) > 8
    assert shown - known == set()


def test_every_command_that_the_page_names_exists() -> None:
    named = set(re.findall(r"(?:^|`| )ragstone ([a-z][a-z-]+)", PAGE, re.MULTILINE))
    assert {"serve", "key", "config", "worker"} <= named
    assert named - set(COMMANDS) == set()


def test_the_defaults_that_the_page_gives_are_those_of_the_settings() -> None:
    default = {item.name: item.default for item in fields(Settings)}
    rows = re.findall(r"^\| (`RAGSTONE_[^|]+) \| ([^|]+) \|", PAGE, re.MULTILINE)
    assert len(rows) > 8
    for names, values in rows:
        settings = [name.lower() for name in re.findall(r"RAGSTONE_(\w+)`", names)]
        given = re.findall(r"`([^`]+)`", values)
        for name, value in zip(settings, given, strict=False):
            assert str(default[name]) in (value, f"{value}.0"), name
