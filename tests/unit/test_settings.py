"""Settings: defaults, file, environment; wrong names and values are named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ragstone.errors import InvalidSetting
from ragstone.kb.settings import load, masked_url, user_language


def at(home: Path, **environment: str) -> dict[str, str]:
    return {"RAGSTONE_HOME": str(home)} | {f"RAGSTONE_{name}": value for name, value in environment.items()}


def test_environment_wins_over_file_and_overrides_over_both(tmp_path: Path) -> None:
    (tmp_path / "ragstone.toml").write_text("chunk_size = 200\ntop_k = 5\nparse_workers = 1\n")
    settings = load(at(tmp_path, TOP_K="7", PARSE_WORKERS="3"), overrides={"parse_workers": 4})
    assert (settings.chunk_size, settings.top_k, settings.parse_workers) == (200, 7, 4)
    assert settings.home == tmp_path
    assert settings.chunk_overlap == 30


def test_an_unknown_name_is_refused_and_the_near_one_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"RAGSTONE_CHUNK_SIZ\b.*chunk_size"):
        load(at(tmp_path, CHUNK_SIZ="200"))
    (tmp_path / "ragstone.toml").write_text("topk = 5\n")
    with pytest.raises(InvalidSetting, match=r"topk .*ragstone\.toml.*top_k"):
        load(at(tmp_path))
    with pytest.raises(InvalidSetting, match="chunksize"):
        load({}, overrides={"home": str(tmp_path), "chunksize": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CHUNK_SIZE", "many"),
        ("CHUNK_SIZE", "0"),
        ("CHUNK_OVERLAP", "300"),
        ("TOP_K", "-1"),
        ("CHAT_TIMEOUT", "nan"),
        ("LANG", "fr"),
        ("PORT", "70000"),
        ("LOG_FORMAT", "xml"),
        ("LOG_LEVEL", "loud"),
        ("LEASE_SECONDS", "0"),
        ("WORKER_CONCURRENCY", "-1"),
        ("CORS_ORIGINS", "*"),
        ("CORS_ORIGINS", "https://a.example/path"),
        ("CORS_ORIGINS", "https://a.example, evil.example"),
        ("CORS_ORIGINS", "null"),
    ],
)
def test_a_wrong_value_is_named_with_its_setting(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(InvalidSetting, match=name.lower()):
        load(at(tmp_path, **{name: value}))


def test_what_a_setting_may_be_is_said_without_words_of_one_language(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting) as refused:
        load(at(tmp_path, TOP_K="abc"))
    assert "1 ... 1,000" in refused.value.text("zh")
    with pytest.raises(InvalidSetting) as refused:
        load(at(tmp_path, LANG="fr"))
    assert "'auto' | 'en' | 'zh'" in refused.value.text("zh")


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "ragstone.toml").write_text("top_k = \n")
    with pytest.raises(InvalidSetting, match=r"ragstone\.toml"):
        load(at(tmp_path))


def test_an_endpoint_without_a_model_is_half_a_setting(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"chat_base_url.*chat_model"):
        load(at(tmp_path, CHAT_BASE_URL="http://localhost:1/v1"))


def test_secrets_are_masked_wherever_settings_are_shown(tmp_path: Path) -> None:
    settings = load(
        at(
            tmp_path,
            CHAT_BASE_URL="http://user:hidden1@localhost/v1",
            CHAT_MODEL="m",
            CHAT_API_KEY="hidden2",
            DATABASE_URL="postgresql://me:hidden3@db/x",
        )
    )
    shown = f"{settings.shown()} {settings!r}"
    assert "hidden2" not in shown
    assert "hidden3" not in shown
    assert settings.shown()["database_url"] == "postgresql://me:********@db/x"
    assert "hidden1" not in str(settings.shown())
    with pytest.raises(InvalidSetting) as refused:
        load(at(tmp_path, CHAT_API_KEY="hidden4", CHAT_TIMEOUT="x"))
    assert "hidden4" not in str(refused.value)


def test_an_address_that_cannot_be_read_is_masked_whole() -> None:
    assert masked_url("http://[bad") == "********"
    assert masked_url("http://localhost/v1") == "http://localhost/v1"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:hid@db/x",
        "postgresql://db/x?user=me&password=hid&sslmode=require",
        "host=db password=hid dbname=x",
        r"host=db password = 'hid \' hid' dbname=x",
        "https://models.example/v1?api_key=hid",
    ],
)
def test_a_password_is_masked_wherever_an_address_may_hold_it(text: str) -> None:
    masked = masked_url(text)
    assert "hid" not in masked
    assert masked.startswith(text[:7])
    assert masked.endswith(text[-4:].replace("=hid", "****"))


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "RAGSTONE_LANG": "zh"}, "zh"),
        ({"LANG": "zh_TW", "RAGSTONE_LANG": "en"}, "en"),
        ({"LANG": "zh_TW", "RAGSTONE_LANG": "auto"}, "zh"),
    ],
)
def test_language_follows_the_setting_then_the_locale(
    environment: dict[str, str], language: str, tmp_path: Path
) -> None:
    assert user_language({"RAGSTONE_HOME": str(tmp_path)} | environment) == language


def test_the_language_may_stand_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "ragstone.toml").write_text('lang = "zh"\n')
    assert user_language({"RAGSTONE_HOME": str(tmp_path), "LANG": "en_US.UTF-8"}) == "zh"
    assert user_language(at(tmp_path, LANG="en")) == "en"


@pytest.mark.skipif(sys.platform == "win32", reason="has no such modes")
def test_a_file_with_a_key_must_be_the_users_own(tmp_path: Path) -> None:
    file = tmp_path / "ragstone.toml"
    file.write_text('embed_api_key = "hidden"\n')
    file.chmod(0o644)
    with pytest.raises(InvalidSetting, match="chmod 600") as refused:
        load(at(tmp_path))
    assert "hidden" not in str(refused.value)
    file.chmod(0o600)
    assert load(at(tmp_path)).embed_api_key == "hidden"
    file.write_text("top_k = 5\n")
    file.chmod(0o644)
    assert load(at(tmp_path)).top_k == 5


def test_origins_of_pages_stand_side_by_side(tmp_path: Path) -> None:
    settings = load(at(tmp_path, CORS_ORIGINS="https://wiki.example.com, http://localhost:3000,"))
    assert settings.origins == ("https://wiki.example.com", "http://localhost:3000")
    assert load(at(tmp_path)).origins == ()
