"""Originals in a folder and in S3: the same behaviour (row A83)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from urllib.parse import urlencode

import pytest

from ragstone.errors import InvalidSetting, NotFound
from ragstone.kb.blobs import BlobStore
from services import S3, s3_server

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


def address(server: S3, *, secret: str | None = None) -> str:
    options = {
        "endpoint": server.endpoint,
        "region": "us-east-1",
        "access_key_id": server.access_key,
        "secret_access_key": secret or server.secret_key,
    }
    return f"{server.url('bucket')}?{urlencode(options)}"


@pytest.fixture(params=["folder", "s3"])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    url = address(request.getfixturevalue("s3")) if request.param == "s3" else ""
    return await BlobStore.open(url, folder=tmp_path / "blobs")


async def test_bytes_are_put_once_read_in_ranges_listed_and_dropped(blobs: BlobStore) -> None:
    data = bytes(range(256)) * 80_000
    blob_hash = hashlib.sha256(data).hexdigest()
    file = BytesIO(data)
    file.seek(100)
    await blobs.put(blob_hash, file)
    await blobs.put(blob_hash, data)
    await blobs.check()
    assert await blobs.size(blob_hash) == len(data)
    assert b"".join([piece async for piece in blobs.read(blob_hash)]) == data
    assert b"".join([piece async for piece in blobs.read(blob_hash, 5_000, 5_010)]) == data[5_000:5_010]
    assert b"".join([piece async for piece in blobs.read(blob_hash, len(data) - 3)]) == data[-3:]
    assert [piece async for piece in blobs.read(blob_hash, 5, 5)] == []
    assert [name async for name in blobs.hashes()] == [blob_hash]
    await blobs.drop(blob_hash)
    await blobs.drop(blob_hash)
    assert await blobs.size(blob_hash) is None
    with pytest.raises(NotFound, match=blob_hash):
        await anext(blobs.read(blob_hash))


@pytest.mark.parametrize("name", ["../escape", "", "A" * 64, "a" * 63])
async def test_only_a_hash_is_a_place(blobs: BlobStore, name: str) -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        await blobs.put(name, b"x")


async def test_what_is_wrong_with_the_address_is_said_without_secrets(s3: S3, tmp_path: Path) -> None:
    wrong = await BlobStore.open(address(s3, secret="geheim"), folder=tmp_path)
    with pytest.raises(InvalidSetting, match="refuses access") as caught:
        await wrong.put("a" * 64, b"x")
    assert "geheim" not in str(caught.value)
    for url in ("ftp://host/x", "s3://", "s3://bucket?nonsense=1", "bucket"):
        with pytest.raises(InvalidSetting, match="RAGSTONE_BLOB_URL"):
            await BlobStore.open(url, folder=tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidSetting, match="cannot be made"):
        await BlobStore.open("", folder=tmp_path / "file/blobs")
