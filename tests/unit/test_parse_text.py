"""Plain text, Markdown and its headings."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from making import blob
from ragstone.parse.outline import markdown_headings, plain
from ragstone.parse.router import parse
from ragstone.parse.text import front_matter
from ragstone.types import Document

NOTES = """\
---
title: 运维手册
tags: [备份, postgres]
draft: false
version: 3
ratio: 0.5
date: 2024-05-01
author: "A: B"
owners:
  - li
  - wang
nested:
  deep: 1
---
Before any heading.

# 备份 #

```sh
# not a heading
pg_dump app
```

恢复步骤
--------

1. first

| a | b |
|---|---|

~~~
```
# neither is this
~~~

## Check `x` and [link](http://a) ##
### Deep

Top
===

- item
---
#no heading
"""


def sections(document: Document) -> list[tuple[tuple[str, ...], str]]:
    return [(span.path, document.text[span.start : span.end].split("\n")[0]) for span in document.headings]


def test_headings_have_their_path_and_exact_place() -> None:
    document = parse(blob("notes.md", NOTES))
    assert sections(document) == [
        (("备份",), "# 备份 #"),
        (("备份", "恢复步骤"), "恢复步骤"),
        (("备份", "Check x and link"), "## Check `x` and [link](http://a) ##"),
        (("备份", "Check x and link", "Deep"), "### Deep"),
        (("Top",), "Top"),
    ]
    spans = document.headings
    assert all(a.end == b.start for a, b in pairwise(spans))
    assert spans[-1].end == len(document.text)
    assert spans[0].start == document.text.index("# 备份")


def test_front_matter_becomes_metadata_and_leaves_the_text() -> None:
    document = parse(blob("notes.md", NOTES))
    assert document.title == "运维手册"
    assert document.text.startswith("Before any heading.")
    assert dict(document.metadata) == {
        "tags": ("备份", "postgres"),
        "draft": False,
        "version": 3,
        "ratio": 0.5,
        "date": "2024-05-01",
        "author": "A: B",
        "owners": ("li", "wang"),
    }


def test_toml_front_matter() -> None:
    text = '+++\ntitle = "T"\nwhen = 2024-01-02T03:04:05Z\nsub = {a = 1}\n+++\nbody'
    metadata, body = front_matter(text)
    assert metadata == {"title": "T", "when": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)}
    assert body == "body"


@pytest.mark.parametrize(
    "text",
    [
        "---\njust text\n---\nmore",
        "--- not front matter",
        "---\nnever: closed\n",
        "+++\nbroken toml\n+++\nx",
        "",
    ],
)
def test_what_only_looks_like_front_matter_stays_text(text: str) -> None:
    assert front_matter(text) == ({}, text)


def test_metadata_of_the_source_wins_over_the_files_own() -> None:
    document = parse(blob("a.md", "---\nteam: file\nkept: 1\n---\ntext", metadata={"team": "source"}))
    assert dict(document.metadata) == {"team": "source", "kept": 1}


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.md", "# First *strong* one\n\ntext", "First strong one"),
        ("a.md", "## Second level\n\ntext", "a.md"),
        ("a.txt", "# a comment\ntext", "a.txt"),
        ("no-extension", "text", "no-extension"),
    ],
)
def test_title(name: str, text: str, title: str) -> None:
    assert parse(blob(name, text)).title == title


def test_plain_text_has_no_headings_and_keeps_its_words() -> None:
    document = parse(blob("script.sh", "#!/bin/sh\n# comment\necho hi\n"))
    assert document.headings == ()
    assert document.text == "#!/bin/sh\n# comment\necho hi"
    assert document.media_type == "text/plain"


def test_lost_characters_are_a_warning() -> None:
    data = "好的文本一段。\n".encode() * 40
    document = parse(blob("a.txt", data[:100] + b"\xff" + data[100:]))
    assert "a.txt" in document.warnings[0].text("en")
    assert parse(blob("a.txt", data)).warnings == ()


def test_the_revision_names_content_and_parser() -> None:
    first, same, other = (parse(blob(name, text)) for name, text in [("a", "x"), ("b", "x"), ("a", "y")])
    assert first.revision == same.revision != other.revision


@pytest.mark.parametrize(
    ("inline", "shown"),
    [
        ("**a** _b_ `c`", "a _b_ c"),
        ("![alt](x.png) t", "alt t"),
        (r"\# a\_b", "# a_b"),
        ("2 * 3 * 4", "2 * 3 * 4"),
    ],
)
def test_plain(inline: str, shown: str) -> None:
    assert plain(inline) == shown


@settings(deadline=None, max_examples=300)
@given(st.text(st.sampled_from("#=-`~ \nab|"), max_size=80))
def test_a_heading_starts_at_its_line_outside_code(text: str) -> None:
    starts = [0]
    for heading in markdown_headings(text):
        assert heading.start == 0 or text[heading.start - 1] == "\n"
        assert heading.start >= starts[-1]
        line = text[heading.start :].partition("\n")[0]
        assert [sign for sign in heading.title if sign in "ab"] == [sign for sign in line if sign in "ab"]
        starts.append(heading.start)


def test_a_long_line_of_marks_takes_no_time() -> None:
    assert markdown_headings("# " + "*" * 200_000 + "\n" + "[" * 200_000) != []
