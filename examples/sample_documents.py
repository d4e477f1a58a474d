"""A few documents for the other examples, in a store in memory.

`FakeEmbedder` finds by the words two texts share. For a real model put
`await LocalEmbedder.open(Path("models"))` or an `OpenAIEmbedder` in its place.
"""

from __future__ import annotations

from ragstone import Document, MemoryStore, RecursiveSplitter
from ragstone.testing import FakeEmbedder

DOCUMENTS = [
    ("Ferry", 2023, "The night ferry leaves Halm at 22:15. Dogs travel free of charge on the ferry."),
    ("Ferry", 2024, "The night ferry leaves Halm at 23:00 since the spring of 2024."),
    ("Pumps", 2024, "The P-200 pump in hall 3 is serviced every six months. A new seal costs 40 euros."),
    ("图书馆", 2024, "图书馆周一闭馆。读者每次最多借五本书，借期为三十天。"),
    ("考勤制度", 2023, "员工每年有十天年假。试用期为三个月。"),
]


async def stored(embedder: FakeEmbedder) -> MemoryStore:
    """The documents, split, embedded and stored; each with the metadata `name` and `year`."""
    store = MemoryStore()
    split = RecursiveSplitter(max_size=100, overlap=10, tokenizer=embedder.tokenizer)
    for name, year, text in DOCUMENTS:
        document = Document(
            text=text, uri=f"sample:{name}/{year}", title=name, metadata={"name": name, "year": year}
        )
        chunks = split(document)
        vectors = await embedder.embed_documents([chunk.embedding_text for chunk in chunks])
        await store.replace(document, chunks, vectors)
    return store
