"""Wrong usage: one clear sentence, the right exit code, nothing started."""

from __future__ import annotations

import subprocess

import pytest
from command_line import CommandLine, Inside


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fnd"], 2, "no command 'fnd'"),
        (["serach", "x"], 2, "Did you mean: search?"),
        (["add"], 2, "PATH is missing"),
        (["add", "--bsae", "x", "."], 2, "no option --bsae"),
        (["add", ""], 2, "blank"),
        (["add", ".", "--jobs", "0"], 2, "--jobs is 0"),
        (["add", ".", "--jobs", "many"], 2, "--jobs"),
        (["add", "no/such/folder"], 2, "no/such/folder"),
        (["add", "*.pdf"], 2, "ragstone add . --glob '*.pdf'"),
        (["add", "papers/**/*.md"], 2, "ragstone add papers --glob '**/*.md'"),
        (["ask"], 2, "QUESTION is missing"),
        (["ask", "   "], 2, "blank"),
        (["ask", "x" * 100_000], 2, "100,000 characters"),
        (["search", "\u3000\n"], 2, "blank"),
        (["search", "x", "--mode", "psychic"], 2, "--mode"),
        (["search", "x", "--filter", "a =="], 2, ""),
        (["search", "x", "--rerank"], 2, "RAGSTONE_RERANK_KIND"),
        (["rm"], 2, "ragstone rm DOC"),
        (["rm", "--all"], 2, "ragstone rm DOC"),
        (["rm", "x", "--all", "--base", "b"], 2, "ragstone rm DOC"),
        (["rm", "--all", "--base", "b"], 2, "needs --yes"),
        (["parse", "no-such-file.pdf"], 2, "no-such-file.pdf"),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(
    arguments: list[str], code: int, words: str, inside: Inside
) -> None:
    ended = inside(*arguments)
    assert (ended.code, ended.out) == (code, "")
    assert words in ended.err
    assert ended.err.startswith("ragstone: ")
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err
    assert not (inside.command.home / "postgres").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["key", "create", "--role", "boss"], "--role 的值无法使用：应为 reader, editor, admin 之一。"),
        (["search", "x", "--top-k", "many"], "的值无法使用：应为整数。"),
        (["search", "x", "--min-score", "high"], "的值无法使用：应为数字。"),
    ],
)
def test_a_wrong_value_is_told_in_chinese(arguments: list[str], words: str, inside: Inside) -> None:
    ended = inside(*arguments, RAGSTONE_LANG="zh")
    assert ended.code == 2
    assert words in ended.err


def test_with_json_the_failure_is_an_object_and_the_sentence_stays(inside: Inside) -> None:
    ended = inside("ask", " ", "--json")
    assert ended.code == 2
    assert ended.json == {"error": {"code": "core.query_blank", "message": ended.err[len("ragstone: ") : -1]}}
    ended = inside("ask", "--jsn", "--json", RAGSTONE_LANG="zh")
    assert ended.json["error"]["code"] == "cli.usage"
    assert "没有选项 --jsn" in ended.json["error"]["message"]


def test_a_wrong_setting_is_named_and_only_what_does_not_need_it_works(inside: Inside) -> None:
    ended = inside("list", RAGSTONE_CHUNK_SIZ="300")
    assert ended.code == 2
    assert "chunk_size" in ended.err
    assert inside("--help", RAGSTONE_CHUNK_SIZ="300").code == 0


def test_an_unexpected_failure_is_a_sentence_and_debug_shows_where(inside: Inside) -> None:
    (inside.command.home / "ragstone.toml").mkdir()  # reading a folder is an error of the system
    plain, debug = inside("config"), inside("config", "--debug")
    assert plain.code == debug.code != 0
    assert "Traceback" not in plain.err
    assert "Traceback" in debug.err


def test_a_closed_pipe_is_no_error(light: CommandLine) -> None:
    process = light.start("config")
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=30)
    assert err == b""
    assert process.returncode == 141


def test_config_masks_secrets_and_names_the_file(inside: Inside) -> None:
    ended = inside(
        "config",
        "--json",
        RAGSTONE_CHAT_API_KEY="sk-secret",
        RAGSTONE_DATABASE_URL="postgresql://u:geheim@localhost/x",
    )
    assert ended.json["home"] == str(inside.command.home)
    assert ended.json["settings"]["chunk_size"] == "300"
    assert "sk-secret" not in ended.out
    assert "geheim" not in ended.out
    assert "sk-secret" not in inside("config", RAGSTONE_CHAT_API_KEY="sk-secret").out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_is_utf8_in_every_locale(encoding: str, light: CommandLine) -> None:
    (light.folder / "主页").mkdir()
    command = CommandLine(home=light.folder / "主页", folder=light.folder)
    settings = {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": encoding}
    assert command("config", "--json", **settings).json["home"].endswith("主页")
    # Where text cannot be shown it is escaped, and the command still works.
    assert command("config", **settings).code == 0


def test_doctor_works_where_nothing_else_does(inside: Inside) -> None:
    url = "postgresql://nobody:wrong-password@127.0.0.1:1/none"
    ended = inside(
        "doctor",
        "--json",
        RAGSTONE_DATABASE_URL=url,
        RAGSTONE_CHAT_BASE_URL="http://127.0.0.1:1/v1",
        RAGSTONE_CHAT_MODEL="m",
    )
    checks = {check["name"]: check for check in ended.json["checks"]}
    assert ended.code == 1
    assert ended.json["ok"] is False
    assert checks["python"]["status"] == checks["embeddings"]["status"] == "ok"
    assert checks["database"]["status"] == checks["chat"]["status"] == "failed"
    assert "wrong-password" not in ended.out + ended.err
    ended = inside("doctor", RAGSTONE_TOP_K="many")
    assert ended.code == 1
    assert "top_k" in ended.out


def test_the_command_runs_as_a_module_of_the_running_python(light: CommandLine) -> None:
    from command_line import COMMAND

    ended = subprocess.run(
        [*COMMAND, "--version"], env=light.environment(), capture_output=True, timeout=30, check=True
    )
    assert ended.stdout.startswith(b"ragstone ")
