"""One story told over HTTP to real processes: alone with everything embedded, and as a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest

from api import Api, shown, text_of
from deployment import Deployment
from making import lines, pdf, zipped
from services import wait_until

pytestmark = pytest.mark.xdist_group("application")

EN = b"# Timetable\n\nThe night ferry to Halm leaves from pier seven at 22:15.\n\nDogs travel free of charge.\n"
ZH = "# 差旅报销制度\n\n出差返回后须在十五个工作日内提交报销单。\n\n住宿标准为每晚四百元。\n".encode()
HTML = "<html><head><title>Roof garden</title></head><body><p>The lilies are watered at dawn.</p></body></html>"
PDF = pdf([lines("The turbine hall opens in spring."), lines("Lake Orrin is ninety metres deep.")])
ZIP = zipped(
    {"one/keeper.md": "The keeper of the lighthouse is called Ansgar.", "账单.txt": "电费在每月五日支付。"}
)
BROKEN = b"%PDF-1.7\nthis is no PDF any more"
NAME_ZH = "差旅报销制度.md"
FILES = [
    ("timetable.md", EN),
    (NAME_ZH, ZH),
    ("garden.html", HTML.encode()),
    ("lake.pdf", PDF),
    ("bundle.zip", ZIP),
    ("broken.pdf", BROKEN),
]


@dataclass(kw_only=True)
class Story:
    """What happened until now."""

    deployed: Deployment
    api: Api
    base_id: str = ""
    documents: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    session_id: str = ""

    def id_of(self, name: str) -> str:
        return self.documents[name]["document_id"]


@pytest.fixture(scope="module", params=["single", "cluster"])
def story(request: pytest.FixtureRequest) -> Iterator[Story]:
    deployed: Deployment = request.getfixturevalue(request.param)
    with deployed.client() as client:
        yield Story(deployed=deployed, api=Api(client))
