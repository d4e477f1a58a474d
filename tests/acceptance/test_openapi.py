"""openapi.json: the committed contract is the one that is served, complete, and a real server keeps it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from api import Api
from serving import COMMAND, environment_of, log_of, serving

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "openapi.json"
ATTACK_S = 40
METHODS = ("get", "post", "put", "patch", "delete")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "ignored_auth",
)


def document() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            if method in METHODS:
                yield f"{method.upper()} {path}", operation


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return document()["components"]["schemas"][name] if name else schema


def test_the_committed_contract_is_the_one_of_the_code() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "ragstone.kb.api.openapi"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert FILE.read_text(encoding="utf-8") == made.stdout, "run `make openapi` and look at what changed"


def test_every_operation_is_named_described_and_says_how_it_fails() -> None:
    names = [operation["operationId"] for _, operation in operations()]
    assert len(names) == len(set(names))
    assert {name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)} == set()
    for where, operation in operations():
        assert operation["summary"], where
        assert operation["description"], where
        assert operation["tags"], where
        for status in ("4XX", "5XX"):
            content = operation["responses"][status]["content"]
            assert content["application/problem+json"]["schema"]["$ref"].endswith("/Problem"), where
        health = where in ("GET /healthz", "GET /readyz")
        assert operation["security"] == ([] if health else [{"bearer": []}, {"header": []}]), where
    assert set(document()["components"]["securitySchemes"]) == {"bearer", "header"}


def test_w20_every_answer_is_typed_and_every_field_that_may_be_missing_says_so() -> None:
    for where, operation in operations():
        for status, response in operation["responses"].items():
            content = response.get("content", {}).get("application/json")
            if not status.startswith("2") or content is None:
                continue
            schema = resolved(content["schema"])
            assert schema["type"] == "object", where
            assert schema["properties"], where
            for name, value in schema["properties"].items():
                assert value.keys() & {"type", "$ref", "anyOf", "allOf", "enum", "const"}, (where, name)


def test_every_body_has_an_example_and_refuses_fields_that_do_not_exist() -> None:
    for where, operation in operations():
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            continue
        schema = resolved(content["schema"])
        shown = "examples" in schema or any(
            "examples" in value or "default" in value for value in schema["properties"].values()
        )
        assert shown, where
        assert schema["additionalProperties"] is False, where


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, dict[str, str], Path]]:
    """Address and key of a server with something in it, and the ids of that."""
    home = tmp_path_factory.mktemp("contract") / "home"
    made = subprocess.run(
        [*COMMAND, "key", "create", "--name", "k", "--role", "admin", "--json"],
        env=environment_of(home),
        capture_output=True,
        text=True,
        check=True,
        timeout=90,
    )
    key = json.loads(made.stdout)["key"]
    with serving(home, log_format="json") as url:
        headers = {"Authorization": f"Bearer {key}"}
        with httpx2.Client(base_url=url, headers=headers, timeout=30) as client:
            api = Api(client)
            base_id = api.make_base("harbour")
            (item,) = api.upload(base_id, ("ferry.md", b"# Ferry\n\nThe last ferry leaves at 22:15.\n"))
            api.settled(base_id)
            session_id = api.make_session(base_id)
            said = api.call(
                "POST", f"/api/sessions/{session_id}/messages", {"question": "When is the last ferry?"}
            )
            ids = {
                "base_id": base_id,
                "document_id": item["document"]["document_id"],
                "session_id": session_id,
                "message_id": said["message_id"],
                "job_id": str(api.call("GET", "/api/jobs")["items"][0]["job_id"]),
            }
        yield url, key, ids, home


def test_a_hostile_client_that_knows_the_contract_finds_no_fault(
    seeded: tuple[str, str, dict[str, str], Path], tmp_path: Path
) -> None:
    """Made-up requests, valid and not, to every operation: what is wrong with one is never our fault (W33).

    What deletes comes last, for the others need what it deletes; what fetches addresses is left out.
    """
    url, key, ids, home = seeded
    lines = [f'"path.{name}" = "{value}"' for name, value in ids.items()]
    (tmp_path / "schemathesis.toml").write_text("\n".join(["[parameters]", *lines, ""]))
    for seconds, chosen in ((ATTACK_S, "--exclude-method"), (ATTACK_S // 4, "--include-method")):
        attacked = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "schemathesis.cli",
                    "--config-file",
                    str(tmp_path / "schemathesis.toml"),
                ),
                *("run", str(FILE), "--url", url, "--header", f"Authorization: Bearer {key}"),
                *(chosen, "DELETE", "--exclude-path", "/api/bases/{base_id}/addresses"),
                *("--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing"),
                *("--max-time", str(seconds), "--seed", "1", "--continue-on-failure", "--no-color"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + 120,
        )
        assert attacked.returncode == 0, attacked.stdout[-8_000:] + attacked.stderr[-2_000:]
        assert "passed" in attacked.stdout
    logged = [json.loads(line) for line in log_of(home).read_text(encoding="utf-8").splitlines()]
    assert len(logged) > 100
    assert [line for line in logged if line["level"] == "error"] == []
    assert [line for line in logged if line["event"] == "request" and (line["status"] or 0) >= 500] == []
