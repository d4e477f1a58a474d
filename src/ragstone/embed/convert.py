"""Turns the weights into what `local` runs: a CTranslate2 int8 encoder and a vocabulary.

The encoder is built as CTranslate2 builds a BERT (post-norm layers, exact GELU, query,
key and value in one matrix). The one token type is added into the position table. Every
matrix is quantised by row: `int8 = round(weight * 127 / max(abs(row)))`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragstone.embed.tokens import UnigramTokenizer
from ragstone.embed.weights import Weights

if TYPE_CHECKING:
    from ctranslate2.specs.transformer_spec import TransformerEncoderModelSpec

PIECES = "pieces.txt"
SCORES = "scores.f32"
TOKENIZER = "tokenizer.json"
FILES = ("model.bin", "config.json", "vocabulary.json", PIECES, SCORES, TOKENIZER)

_ROWS_AT_ONCE = 16_384

Advance: TypeAlias = Callable[[float], None]
"""Takes the part that is done, 0 to 1."""


def write_encoder(weights: Weights, folder: Path, advance: Advance) -> None:
    """Writes `model.bin`, `config.json` and `vocabulary.json` (119 MB)."""
    spec = _encoder(weights, advance)
    spec.validate()
    spec.save(str(folder))
    # CTranslate2 reads a vocabulary for string tokens; only ids are sent to this model.
    # Reading 250,000 names would triple the time to open it.
    (folder / "vocabulary.json").write_text('["<unk>", "<s>", "</s>"]', encoding="utf-8")
    advance(1.0)


def write_tokenizer(weights: Weights, folder: Path) -> None:
    """Writes the vocabulary as lines, its scores as float32, and the rest as JSON."""
    special = {weights.bos, weights.eos, weights.pad, weights.unk}
    special |= {
        index for index, (text, score) in enumerate(weights.pieces) if text == "<mask>" and score == 0
    }
    (folder / PIECES).write_bytes("\n".join(text for text, _ in weights.pieces).encode("utf-8"))
    scores = np.array([score for _, score in weights.pieces], dtype="<f4")
    (folder / SCORES).write_bytes(scores.tobytes())
    replacements = weights.replacements
    rest = {
        "bos": weights.bos,
        "eos": weights.eos,
        "unknown": weights.unk,
        "special": sorted(special),
        "spaces": "".join(chr(code) for code, text in replacements.items() if text == " "),
        "dropped": "".join(chr(code) for code, text in replacements.items() if not text),
        "positions": weights.shape.positions,
        "dimension": weights.shape.hidden,
    }
    (folder / TOKENIZER).write_text(json.dumps(rest, indent=2), encoding="utf-8")


def read_tokenizer(folder: Path) -> tuple[UnigramTokenizer, dict[str, Any]]:
    """The tokenizer of a converted model, and the content of its `tokenizer.json`.

    The names of special tokens are no pieces: `</s>` in a user's text is plain text.
    """
    rest: dict[str, Any] = json.loads((folder / TOKENIZER).read_text(encoding="utf-8"))
    names = (folder / PIECES).read_bytes().decode("utf-8").split("\n")
    pieces = dict(zip(names, range(len(names)), strict=True))
    for index in rest["special"]:
        del pieces[names[index]]
    scores: list[float] = np.frombuffer((folder / SCORES).read_bytes(), dtype="<f4").tolist()
    tokenizer = UnigramTokenizer(
        pieces=pieces,
        scores=scores,
        unknown=rest["unknown"],
        spaces=rest["spaces"],
        dropped=rest["dropped"],
    )
    return tokenizer, rest


def _encoder(weights: Weights, advance: Advance) -> TransformerEncoderModelSpec:
    from ctranslate2.specs.common_spec import Activation
    from ctranslate2.specs.transformer_spec import TransformerEncoderModelSpec, TransformerEncoderSpec

    shape = weights.shape
    # The library's specs declare no attribute types.
    encoder: Any = TransformerEncoderSpec(
        shape.layers, shape.heads, pre_norm=False, activation=Activation.GELU, layernorm_embedding=True
    )
    encoder.scale_embeddings = False
    _set_matrix(encoder.embeddings[0], weights, ["emb.word"], shape.hidden)
    advance(0.5)
    positions = weights.vector("emb.pos").reshape(shape.positions, shape.hidden)
    encoder.position_encodings.encodings = positions + weights.vector("emb.type")[: shape.hidden]
    _set_norm(encoder.layernorm_embedding, weights, "emb.ln")
    for index, layer in enumerate(encoder.layer):
        _set_layer(layer, weights, f"l{index}")
        advance(0.5 + 0.4 * (index + 1) / shape.layers)
    spec: Any = TransformerEncoderModelSpec(encoder)
    spec.config.layer_norm_epsilon = shape.epsilon
    spec.register_vocabulary([str(index) for index in range(shape.vocabulary)])
    return spec


def _set_layer(layer: Any, weights: Weights, name: str) -> None:
    hidden, feed_forward = weights.shape.hidden, weights.shape.feed_forward
    attention, ffn = layer.self_attention, layer.ffn
    _set_linear(attention.linear[0], weights, [f"{name}.{part}" for part in "qkv"], hidden)
    _set_linear(attention.linear[1], weights, [f"{name}.ao"], hidden)
    _set_norm(attention.layer_norm, weights, f"{name}.aln")
    _set_linear(ffn.linear_0, weights, [f"{name}.fi"], hidden)
    _set_linear(ffn.linear_1, weights, [f"{name}.fo"], feed_forward)
    _set_norm(ffn.layer_norm, weights, f"{name}.oln")


def _set_norm(target: Any, weights: Weights, name: str) -> None:
    target.gamma = weights.vector(f"{name}.w")
    target.beta = weights.vector(f"{name}.b")


def _set_linear(target: Any, weights: Weights, names: list[str], columns: int) -> None:
    _set_matrix(target, weights, [f"{name}.w" for name in names], columns)
    target.bias = np.concatenate([weights.vector(f"{name}.b") for name in names])


def _set_matrix(target: Any, weights: Weights, names: list[str], columns: int) -> None:
    """Quantises slice by slice: the vocabulary table alone would be 384 MB in float32."""
    quantised: list[NDArray[np.int8]] = []
    scales: list[NDArray[np.float32]] = []
    for name in names:
        rows = weights.rows(name, columns=columns)
        for start in range(0, rows, _ROWS_AT_ONCE):
            stop = min(rows, start + _ROWS_AT_ONCE)
            values = weights.matrix(name, columns=columns, start=start, stop=stop)
            largest = np.abs(values).max(axis=1)
            scale = np.float32(127.0) / np.where(largest == 0, np.float32(127.0), largest)
            quantised.append(np.rint(values * scale[:, None]).astype(np.int8))
            scales.append(scale.astype(np.float32))
    target.weight = np.concatenate(quantised)
    target.weight_scale = np.concatenate(scales)
