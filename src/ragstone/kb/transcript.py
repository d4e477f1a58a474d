"""A conversation as Markdown, for people to keep (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.audit import remarks
from ragstone.kb.redaction import Item
from ragstone.kb.sessions import SessionInfo, StoredMessage
from ragstone.messages import Language, render
from ragstone.place import Place


def transcript(session: SessionInfo, messages: Sequence[StoredMessage], language: Language) -> str:
    """Questions and answers in order with their sources; answers that were replaced are left out."""
    parts = [f"# {session.title}", f"{session.created_at:%Y-%m-%d %H:%M} UTC"]
    current = [message for message in messages if message.replaced_by is None]
    # An answer made anew has a later number: it stands behind its question all the same.
    seqs = {message.message_id: message.seq for message in messages}
    current.sort(key=lambda message: (seqs.get(message.reply_to or "", message.seq), message.seq))
    for message in current:
        if message.role == "user":
            quoted = "\n".join(f"> {line}".rstrip() for line in message.content.splitlines())
            parts.append(f"## {render('session.asked', language)}\n\n{quoted}")
        else:
            parts.append(_answer(message, language))
    return "\n\n".join(parts) + "\n"


def _answer(message: StoredMessage, language: Language) -> str:
    parts = [f"## {render('session.answered', language)}"]
    if message.status != "complete":
        parts.append(f"*{render(f'session.status_{message.status}', language)}*")
    if message.content:
        parts.append(message.content)
    parts += [f"*{sentence}*" for sentence in remarks(message.audit, language)]
    if sources := _sources(message, language):
        parts.append(sources)
    return "\n\n".join(parts)


def _sources(message: StoredMessage, language: Language) -> str:
    """Each source once, with what was taken from it."""
    lines: list[str] = []
    for n in sorted({citation["n"] for citation in message.citations}):
        group = [citation for citation in message.citations if citation["n"] == n]
        first = group[0]
        if first.get("removed"):
            lines.append(f"- [{n}] {render('session.removed', language)}")
            continue
        title = first["title"] or first.get("name") or first["uri"]
        lines.append(f"- [{n}] {_place(first).after(title, language)}")
        for citation in group:
            quote = " ".join(citation["quote"].split())
            place = _place(citation)
            lines.append(f"  > {quote if place == _place(first) else place.after(quote, language)}")
    return "\n".join(lines)


def _place(citation: Item) -> Place:
    stored: Item = citation.get("place") or {"page": citation["page"]}
    values: Item = {**stored, "section": tuple(stored.get("section", ()))}
    return Place(**values)
