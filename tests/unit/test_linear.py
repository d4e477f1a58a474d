"""Time is linear in the length of what a model or a document says, whatever it repeats.

Each text is so long that work which grows with the square of it would take many minutes; it runs in a
process that the system ends after half a minute of CPU. What loops in Python is counted: of twice the
text there may be twice the calls.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from ragstone.cite import cite
from ragstone.readback import read_lines
from ragstone.split import RecursiveSplitter
from ragstone.types import Chunk, Document, Hit

LENGTH = 250_000
CPU_S = 30

TEXTS = {
    "one letter": "'a'",
    "letters and digits": "'a1'",
    "dots": "'a.'",
    "digits": "'1'",
    "groups of digits": "'1,111'",
    "opened quotes": "'“'",
    "opened corners": "'「a'",
    "straight quotes": "'\"'",
    "backticks": "'`'",
    "words in backticks": "'`a '",
    "markers": "'[1]'",
    "marked words": "'a [1]. '",
    "opened brackets": "'['",
    "lists in brackets": "'[1,'",
    "blanks": "' '",
    "lines": "'\\n'",
    "blank lines": "' \\n'",
    "headings": "'# a\\n'",
    "introductions": "'a:\\n'",
    "fences": "'```\\n'",
    "full stops": "'。'",
    "marks": "'?!…'",
    "think": "'<think>'",
    "think and back": "'<think>a</think>'",
    "opened tags": "'<thi'",
    "no answer": "'<no-answer/>'",
    "rules": "'---\\n'",
    "table rows": "'| a | b |\\n'",
    "opened braces": "'{'",
    "abbreviations": "'e.g. '",
    "combining marks": "'e\\u0301\\u0302'",
}
READERS = {
    "audit": "from ragstone.audit import Evidence, missing_facts; missing_facts(text, [Evidence(text)])",
    "cite": (
        "from ragstone.cite import cite; from ragstone.types import Chunk, Hit;"
        "chunk = Chunk(text=text, document_id='d', index=0, start=0, end=len(text));"
        "cite(text, [Hit(chunk=chunk, uri='u', title='t')])"
    ),
    "sentences": "from ragstone.sentences import sentences; sentences(text)",
    "whole output": "from ragstone.readback import *; read_json(text); read_line(text); read_lines(text, 3)",
    "events": (
        "from ragstone.chat.sse import EventReader; reader = EventReader(); data = text.encode();"
        "[reader.feed(data[at:at + 100]) for at in range(0, len(data), 100)]; reader.finish()"
    ),
    "stream": (
        "from ragstone.generate.visible import TagFilter, _Judge; from ragstone.cite import StreamCiter;"
        "tags, judge, citer = TagFilter(), _Judge(), StreamCiter(3);"
        "[citer.feed(judge.feed(tags.feed(text[at:at + 20]))) for at in range(0, len(text), 20)];"
        "citer.feed(judge.feed(tags.finish(), final=True)); citer.finish()"
    ),
    "terms": "from ragstone.terms import analyze; analyze(text)",
    "highlight": "from ragstone.highlight import highlights; highlights('a b 1', text)",
    "split": (
        "from ragstone.split import RecursiveSplitter; from ragstone.types import Document;"
        "RecursiveSplitter(max_size=300, overlap=30)(Document(text=text))"
    ),
    "clean": (
        "from ragstone.clean import clean; from ragstone.types import Document; clean(Document(text=text))"
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_c13_a_long_text_is_read_to_its_end(reader: str) -> None:
    program = (
        "import faulthandler, resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_CPU, ({CPU_S}, {CPU_S}))\n"
        "for unit in sys.argv[1:]:\n"
        f"    print(repr(unit), flush=True)\n"
        f"    text = (unit * {LENGTH})[:{LENGTH}]\n"
        f"    {READERS[reader]}\n"
    )
    units = [eval(unit) for unit in TEXTS.values()]
    done = subprocess.run([sys.executable, "-c", program, *units], capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.stderr[-2_000:])


def calls(work: Callable[[], object]) -> int:
    """How many functions were called while `work` ran."""
    seen = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal seen
        seen += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


def cited(sentences: int) -> None:
    """An answer of so many sentences, each from a passage of as many."""
    text = " ".join(f"Pier {n} holds {n} boats." for n in range(sentences))
    chunk = Chunk(text=text, document_id="d", index=0, start=0, end=len(text))
    answer = " ".join(f"There are {n} boats at pier {n}. [1]" for n in range(sentences))
    found = cite(answer, [Hit(chunk=chunk, uri="u", title="t")])
    assert len(found.citations) == sentences


def split(headings: int) -> None:
    RecursiveSplitter(max_size=300, overlap=30)(Document(text="# a\n" * headings))


def listed(lines: int) -> None:
    read_lines("".join(f"part {n}:\n" for n in range(lines)), 3)


@pytest.mark.parametrize("work", [cited, split, listed])
def test_twice_the_text_makes_twice_the_calls(work: Callable[[int], None]) -> None:
    work(10)  # what is made once
    once, twice = calls(lambda: work(400)), calls(lambda: work(800))
    assert twice < 2.4 * once
