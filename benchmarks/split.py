"""Splitters: MB per CPU second, and whether the time grows with the text alone.

    python benchmarks/split.py [--large]

Distinct Chinese and English prose with headings and lists, made here. Ragstone,
langchain-text-splitters, semantic-text-splitter and chonkie cut the same text, in
characters and in tokens of the same tokenizer, each in a process of its own with one
thread; all give the place of each chunk in the text. The others are installed by pip into
a temporary folder. `--large` adds 100 MB. Writes benchmarks/results/split.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

try:
    from ragstone.kb.settings import default_home
except ModuleNotFoundError:  # in a child process of the other splitters
    default_home = Path

RESULTS = Path(__file__).parent / "results" / "split.md"
OTHERS = ("langchain-text-splitters", "semantic-text-splitter", "chonkie")
PACKAGES = (*OTHERS, "tokenizers")
SIZE, OVERLAP = 1000, 100
TOKENS, TOKEN_OVERLAP = 300, 30
LETTERS = "etaoinshrdlucmfwypvbgk"


def made(characters: int, seed: int = 7) -> str:
    """Distinct prose, half Chinese, half English, with headings and lists."""
    chance = random.Random(seed)
    words = ["".join(chance.choices(LETTERS, k=chance.randint(2, 10))) for _ in range(20_000)]
    hanzi = [chr(code) for code in range(0x4E00, 0x6000)]

    def english() -> str:
        sentence = chance.choices(words, k=chance.randint(8, 30))
        sentence[0] = sentence[0].capitalize()
        for place in range(5, len(sentence) - 1, 7):
            sentence[place] += ","
        return " ".join(sentence) + chance.choice(".....?!")

    def chinese() -> str:
        parts = ("".join(chance.choices(hanzi, k=chance.randint(5, 16))) for _ in range(chance.randint(1, 4)))
        return "，".join(parts) + chance.choice("。。。。？！")

    paragraphs: list[str] = []
    length = 0
    while length < characters:
        write, between = (chinese, "") if chance.random() < 0.5 else (english, " ")
        kind = chance.random()
        if kind < 0.1:
            paragraph = "#" * chance.randint(1, 3) + " " + write()[:30]
        elif kind < 0.2:
            paragraph = "\n".join("- " + write() for _ in range(chance.randint(3, 8)))
        else:
            paragraph = between.join(write() for _ in range(chance.randint(2, 9)))
        paragraphs.append(paragraph)
        length += len(paragraph) + 2
    return "\n\n".join(paragraphs)


# --- the splitters, each called in a process of its own ----------------------------


@dataclass(frozen=True)
class Model:
    """An embedding model's tokenizer: ours in a folder, the same for the others in a file."""

    folder: str
    file: str


def ragstone(text: str, model: Model | None) -> int:
    from ragstone.split import RecursiveSplitter
    from ragstone.types import Document

    if model is None:
        return len(RecursiveSplitter(max_size=SIZE, overlap=OVERLAP)(Document(text=text)))
    from ragstone.embed.convert import read_tokenizer

    tokenizer, _ = read_tokenizer(Path(model.folder))
    split = RecursiveSplitter(max_size=TOKENS, overlap=TOKEN_OVERLAP, tokenizer=tokenizer)
    return len(split(Document(text=text)))


def langchain(text: str, model: Model | None) -> int:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    if model is None:
        split = RecursiveCharacterTextSplitter(chunk_size=SIZE, chunk_overlap=OVERLAP, add_start_index=True)
    else:
        from tokenizers import Tokenizer

        counter = Tokenizer.from_file(model.file)
        split = RecursiveCharacterTextSplitter(
            chunk_size=TOKENS,
            chunk_overlap=TOKEN_OVERLAP,
            add_start_index=True,
            length_function=lambda part: len(counter.encode(part, add_special_tokens=False)),
        )
    return len(split.create_documents([text]))


def semantic(text: str, model: Model | None) -> int:
    from semantic_text_splitter import TextSplitter

    if model is None:
        split = TextSplitter(SIZE, overlap=OVERLAP)
    else:
        split = TextSplitter.from_huggingface_tokenizer_file(model.file, TOKENS, overlap=TOKEN_OVERLAP)
    return len(split.chunk_indices(text))


def chonkie(text: str, model: Model | None) -> int:
    # Its recursive splitter has no overlap.
    from chonkie import RecursiveChunker

    if model is None:
        return len(RecursiveChunker(tokenizer="character", chunk_size=SIZE)(text))
    from tokenizers import Tokenizer

    return len(RecursiveChunker(tokenizer=Tokenizer.from_file(model.file), chunk_size=TOKENS)(text))


SPLITTERS: dict[str, Callable[[str, Model | None], int]] = {
    "ragstone": ragstone,
    "langchain-text-splitters": langchain,
    "semantic-text-splitter": semantic,
    "chonkie": chonkie,
}


def measure(name: str, file: str, limit: str, *model: str) -> None:
    """In the child process: cut a little, then the file; print CPU seconds and chunks as JSON."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))
    text = Path(file).read_text(encoding="utf-8")
    chosen = Model(*model) if model else None
    started = time.process_time()
    SPLITTERS[name](text[:2_000], chosen)
    opening = time.process_time() - started
    started = time.process_time()
    chunks = SPLITTERS[name](text, chosen)
    seconds = time.process_time() - started
    # Opening a tokenizer is not cutting.
    print(json.dumps({"seconds": seconds - opening if chosen else seconds, "chunks": chunks}))


# --- the table ---------------------------------------------------------------------


def run(python: str, name: str, file: Path, model: Model | None, limit: int) -> dict[str, Any] | None:
    """What one process measured; None when it failed or took more than `limit` CPU seconds."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "RAYON_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "0",
    }
    command = [python, __file__, "--measure", name, str(file), str(limit), *(astuple(model) if model else ())]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        print(ended.stderr[-500:], file=sys.stderr)
        return None
    return json.loads(ended.stdout.splitlines()[-1])


def others(folder: Path, packages: Sequence[str] = PACKAGES) -> str:
    """A Python with these packages installed, made once."""
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        # None of them needs torch here, and it would fill the disk.
        refused = folder / "constraints.txt"
        refused.write_text("torch<0\n", encoding="utf-8")
        install = [python, "-m", "pip", "install", "--quiet", "-c", refused, *packages]
        subprocess.run(install, check=True)
        (folder / "complete").touch()
    return str(python)


def tokenizer_of(models: Path, python: str, folder: Path) -> Model | None:
    """The tokenizer of the local embedding model, written once more as the others read it."""
    found = next(models.glob("*/pieces.txt"), None)
    if found is None:
        print(f"no model in {models}: sizes in tokens are left out; any `ragstone add` puts one there")
        return None
    file = folder / "tokenizer.json"
    code = (
        "import sys, array; from tokenizers import Tokenizer, models, normalizers, pre_tokenizers\n"
        "pieces = open(sys.argv[1], encoding='utf-8', newline='').read().split(chr(10))\n"
        "scores = array.array('f', open(sys.argv[2], 'rb').read())\n"
        "made = Tokenizer(models.Unigram(list(zip(pieces, scores)), unk_id=3, byte_fallback=False))\n"
        "made.normalizer = normalizers.NFKC(); made.pre_tokenizer = pre_tokenizers.Metaspace()\n"
        "made.save(sys.argv[3])"
    )
    subprocess.run([python, "-c", code, found, found.with_name("scores.f32"), file], check=True)
    return Model(str(found.parent), str(file))


def versions(python: str) -> list[str]:
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    found = subprocess.run([python, "-c", code, *OTHERS], capture_output=True, text=True, check=True)
    return [" ".join(pair) for pair in zip(OTHERS, found.stdout.split(), strict=True)]


def table(python: str, folder: Path, sizes: Sequence[int], model: Model | None, limit: int) -> list[str]:
    files = {size: folder / f"{size}.txt" for size in sizes}
    for size, file in files.items():
        # 1.5 bytes a character, in this mixture.
        file.write_text(made(size * 1_000_000 * 2 // 3), encoding="utf-8")
    line = folder / "line.txt"
    line.write_text(
        "".join(made(700_000).translate(dict.fromkeys(map(ord, " \n,.?!，。？！#-")))), encoding="utf-8"
    )
    columns = [*files.items(), ("1 MB, one line", line)]
    head = [f"{size} MB" if isinstance(size, int) else size for size, _ in columns]
    lines = ["| MB per CPU second (chunks) | " + " | ".join(head) + " |", "|---" * (len(head) + 1) + "|"]
    for name in SPLITTERS:
        cells: list[str] = []
        for _, file in columns:
            found = run(sys.executable if name == "ragstone" else python, name, file, model, limit)
            speed = file.stat().st_size / 1e6 / found["seconds"] if found else 0
            cells.append(f"{speed:.2f} ({found['chunks']:,})" if found else f"over {limit} s")
            print(name, file.name, "tokens" if model else "characters", cells[-1], flush=True)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true", help="also 100 MB")
    parser.add_argument("--others", type=Path, help="a folder with the other splitters, kept")
    parser.add_argument("--models", type=Path, default=default_home() / "models", help="converted models")
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds for one splitter and text")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = others(options.others or folder / "others")
        sizes = (1, 10, 100) if options.large else (1, 10)
        lines = [
            "# Split",
            "",
            f"    python benchmarks/split.py --limit {options.limit}" + " --large" * options.large,
            "",
            f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()};"
            f" {', '.join(versions(python))}. One thread each. Compare ratios, not times.",
            "",
            f"## Characters: {SIZE}, overlap {OVERLAP} (chonkie: no overlap)",
            "",
            *table(python, folder, sizes, None, options.limit),
        ]
        if model := tokenizer_of(options.models, python, folder):
            lines += [
                "",
                f"## Tokens of the local model: {TOKENS}, overlap {TOKEN_OVERLAP} (chonkie: no overlap)",
                "",
                *table(python, folder, (1,), model, options.limit),
            ]
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
