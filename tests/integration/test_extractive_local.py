"""Answers without a chat model from small documents of both languages, with the real embedding model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ragstone.augment import CitedContext
from ragstone.clean import clean
from ragstone.embed.local import LocalEmbedder
from ragstone.generate import ExtractiveGenerator
from ragstone.ingest import IngestPipeline
from ragstone.language import language_of
from ragstone.prompts import refusal
from ragstone.query import QueryPipeline
from ragstone.retrieve.store import StoreRetriever
from ragstone.split import RecursiveSplitter
from ragstone.store.memory import MemoryStore
from ragstone.types import Answer, Blob, Document, Query

pytestmark = pytest.mark.anyio

DOCUMENTS = {
    "handbook": """# Staff handbook of Larkfield Tools

## Working hours

The office is open from 7:30 to 19:00. Core hours are 10:00 to 15:00, when everyone should be reachable.

## Leave

Every employee has 26 days of paid leave a year. Up to five unused days can be carried over until 31 March.

## Expenses

- Train journeys are booked in second class.
- Hotel rooms may cost up to 120 euros a night.
- Receipts must be handed in within 30 days.
""",
    "lease": """# Lease agreement

1. The rent is 980 pounds a month and is due on the third working day.
2. The deposit is two months' rent and is returned within six weeks of the end of the lease.
3. Either side may give three months' notice in writing.
""",
    "ferry": """# Questions about the Tidewater ferry

## How do I book a ticket?

Tickets are sold on the website and at the harbour office. You can pay by card or in cash.

## Can I take my bicycle along?

Yes, bicycles cost 4 euros for each crossing.
""",
    "kestrel": """# Kestrel

Kestrel copies folders to other machines. The log is written to `/var/log/kestrel.log`.

## Errors

- `E12` means that the other machine cannot be reached.
- `E31` means that the disk is full.
""",
    "运维手册": """# 星澜系统运维手册

## 值班安排

工作日白天由平台组值班，夜间由外包团队值班。值班电话为 021-5588 3017，邮箱为 oncall@xinglan.example。

## 备份

数据库每天凌晨两点做全量备份，备份文件保留三十天。备份恢复演练每季度进行一次，由陈立负责。

## 故障等级

| 等级 | 含义 | 响应时间 |
|---|---|---|
| P1 | 全站不可用 | 15 分钟 |
| P2 | 核心功能受影响 | 1 小时 |
""",
    "价目表": """# 云杉咖啡价目表

| 品名 | 中杯 | 大杯 |
|---|---|---|
| 美式 | 18 元 | 22 元 |
| 抹茶拿铁 | 27 元 | 31 元 |

会员满十杯送一杯。外送订单满五十元免配送费。
""",
    "工具屋": """社区工具屋借用说明

工具屋借出电钻、梯子、割草机和高压水枪。每件工具最多借七天。押金一百元，归还时退还。管理员是吴桂芳。
""",
}

ANSWERS = [
    ("运维值班电话是多少？", "值班电话为 021-5588 3017"),
    ("备份保留多久？", "保留三十天"),
    ("谁负责备份恢复演练？", "由陈立负责"),
    ("P1 故障多长时间内响应？", "| P1 | 全站不可用 | 15 分钟"),
    ("抹茶拿铁中杯价格", "| 品名 | 中杯 | 大杯 |\n|---|---|---|\n| 抹茶拿铁 | 27 元 | 31 元"),
    ("工具最多借多久？", "每件工具最多借七天。"),
    ("How many days of leave do I have?", "26 days of paid leave"),
    ("hotel price limit", "Hotel rooms may cost up to 120 euros a night"),
    ("How can I pay for a ferry ticket?", "You can pay by card or in cash."),
    ("What does E31 mean?", "`E31` means that the disk is full."),
    ("notice period", "three months' notice"),
    # The other language, while documents in the language of the question compete.
    ("年假有多少天？", "26 days of paid leave"),
    ("带自行车要多少钱？", "bicycles cost 4 euros"),
    ("How long are backups kept?", "保留三十天"),
    ("What does the tool shed lend?", "工具屋借出电钻"),
]

REFUSED = [
    "What does the company lend?",
    "Who painted the Mona Lisa?",
    "How large is the flat?",
    "What does E99 mean?",
    "P5 故障多长时间内响应？",
    "董事长是谁？",
    "月球有多远？",
    "数学考试什么时候？",
]


async def parse(blob: Blob) -> Document:
    return Document(text=blob.data.decode(), uri=blob.uri, title=blob.uri, media_type="text/markdown")


async def blobs() -> AsyncIterator[Blob]:
    for name, text in DOCUMENTS.items():
        yield Blob(uri=name, name=name, data=text.encode())


async def test_a81_c38_own_documents_are_quoted_or_refused(local_model_folder: Path) -> None:
    """D9, A77, A81, C38, W32: offline, each answer cites the sentence, item or row that says it."""
    embedder = await LocalEmbedder.open(local_model_folder)
    store = MemoryStore()
    split = RecursiveSplitter(tokenizer=embedder.tokenizer)
    await IngestPipeline(
        parse=parse, clean=[clean], split=split, embedder=embedder, store=store, settings="test"
    ).run(blobs())
    pipeline = QueryPipeline(
        retrievers=[StoreRetriever(store=store, embedder=embedder, top_k=8)],
        augment=CitedContext(),
        generate=ExtractiveGenerator(embedder),
    )
    wrong: list[tuple[str, str]] = []
    for question, expected in ANSWERS:
        answer = await pipeline.ask(Query(question))
        if expected not in answer.text or not _cites(answer):
            wrong.append((question, answer.text))
    for question in REFUSED:
        answer = await pipeline.ask(Query(question))
        if answer.answered or answer.citations or answer.text != refusal(language_of(question)):
            wrong.append((question, answer.text))
    assert wrong == []


def _cites(answer: Answer) -> bool:
    return answer.mode == "extractive" and all(
        DOCUMENTS[one.uri][one.start : one.end] == one.quote for one in answer.citations
    )
