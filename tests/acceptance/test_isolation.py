"""A key that may see base X only: whatever it asks, of whichever endpoint, nothing of base Y comes back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from api import Api, shown
from deployment import Deployment

Ids = Mapping[str, Any]
"""What the names in a path stand for, of one base; `bases` is a list with the base's id."""

OURS = "The night ferry to Halm leaves from pier seven."
CANARY = "Zwergsalamander"
THEIRS = f"The {CANARY} sleeps below pier ninety-one, and the ferry to Halm does not know."
NOWHERE = "0123456789abcdef"


def nothing(ids: Ids) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How an endpoint is called with the ids of one base.

    `own` are the statuses of a call within base X by a key that may do it; that the same call with
    the ids of base Y is refused says something only because this one is not.
    """

    body: Callable[[Ids], Any] = nothing
    query: Callable[[Ids], Any] = nothing
    file: bool = False
    """The request is an upload."""
    own: tuple[int, ...] = (200,)
    admin: bool = False
    """Only for the role that no key of some bases can have."""


RULES: dict[str, Rule] = {
    "GET /healthz": Rule(),
    "GET /readyz": Rule(),
    "GET /api/me": Rule(),
    "GET /api/bases": Rule(),
    "POST /api/bases": Rule(body=lambda ids: {"name": f"walk of {ids['base_id']}"}, admin=True),
    "GET /api/bases/{base_id}": Rule(),
    "PATCH /api/bases/{base_id}": Rule(body=lambda ids: {"description": "walked"}, admin=True),
    "DELETE /api/bases/{base_id}": Rule(admin=True),
    "GET /api/bases/{base_id}/stats": Rule(),
    "GET /api/stats": Rule(),
    "GET /api/bases/{base_id}/documents": Rule(),
    "POST /api/bases/{base_id}/documents": Rule(file=True, own=(202,)),
    "POST /api/bases/{base_id}/documents/retry": Rule(own=(202,)),
    "POST /api/bases/{base_id}/documents/delete": Rule(body=lambda ids: {"document_ids": [ids["elsewhere"]]}),
    "POST /api/bases/{base_id}/addresses": Rule(
        body=lambda ids: {"url": "http://nowhere.invalid/page"}, own=(202,)
    ),
    "GET /api/documents/{document_id}": Rule(),
    "PATCH /api/documents/{document_id}": Rule(body=lambda ids: {"category": "walked"}),
    "DELETE /api/documents/{document_id}": Rule(),
    "POST /api/documents/{document_id}/retry": Rule(own=(202, 409)),
    "GET /api/documents/{document_id}/text": Rule(),
    "GET /api/documents/{document_id}/chunks": Rule(),
    "PATCH /api/documents/{document_id}/chunks/{chunk_id}": Rule(
        body=lambda ids: {"enabled": False}, own=(204,)
    ),
    "GET /api/documents/{document_id}/download": Rule(),
    "GET /api/keys": Rule(admin=True),
    "POST /api/keys": Rule(
        admin=True, body=lambda ids: {"name": "walk", "role": "reader", "bases": ids["bases"]}, own=(201,)
    ),
    "DELETE /api/keys/{key_id}": Rule(admin=True),
    "GET /api/audit": Rule(admin=True, query=lambda ids: {"base_id": ids["base_id"]}),
    "GET /api/jobs": Rule(query=lambda ids: {"base_id": ids["base_id"]}),
    "GET /api/jobs/{job_id}": Rule(),
    "POST /api/jobs/{job_id}/cancel": Rule(own=(200, 409)),
    "POST /api/jobs/{job_id}/replay": Rule(own=(202, 409)),
    "POST /api/jobs/replay": Rule(own=(202,), query=lambda ids: {"base_id": ids["base_id"]}),
    "POST /api/search": Rule(body=lambda ids: {"query": "ferry pier", "bases": ids["bases"]}),
    "POST /api/ask": Rule(body=lambda ids: {"question": "Which pier?", "bases": ids["bases"]}),
    "POST /api/ask/stream": Rule(body=lambda ids: {"question": "Which pier?", "bases": ids["bases"]}),
    "GET /api/sessions": Rule(),
    "POST /api/sessions": Rule(body=lambda ids: {"bases": ids["bases"]}, own=(201,)),
    "GET /api/sessions/{session_id}": Rule(),
    "PATCH /api/sessions/{session_id}": Rule(body=lambda ids: {"bases": ids["bases"]}),
    "DELETE /api/sessions/{session_id}": Rule(own=(204,)),
    "GET /api/sessions/{session_id}/export": Rule(),
    "GET /api/sessions/{session_id}/messages/{message_id}": Rule(),
    "POST /api/sessions/{session_id}/messages": Rule(body=lambda ids: {"question": "Which pier?"}),
    "POST /api/sessions/{session_id}/messages/stream": Rule(body=lambda ids: {"question": "Which pier?"}),
    "POST /api/sessions/{session_id}/messages/{message_id}/regenerate/stream": Rule(body=lambda ids: {}),
    # Of the answer that was made anew, which is the latest no more.
    "POST /api/sessions/{session_id}/messages/{message_id}/regenerate": Rule(body=lambda ids: {}, own=(409,)),
    "POST /api/sessions/{session_id}/messages/{message_id}/stop": Rule(own=(202, 409)),
    "PUT /api/sessions/{session_id}/messages/{message_id}/feedback": Rule(
        body=lambda ids: {"rating": 1, "text": "good"}
    ),
    "GET /api/feedback": Rule(admin=True),
    "POST /api/bases/{base_id}/reindex": Rule(own=(202, 409)),
}


@dataclass(kw_only=True)
class World:
    """Two bases on one server, and the keys that see one of them or both."""

    deployed: Deployment
    mine: dict[str, Any]
    theirs: dict[str, Any]
    clients: dict[str, httpx2.Client]
    """By the name of the key; `admin` sees all."""
    canaries: set[str] = field(default_factory=set[str])

    def api(self, name: str) -> Api:
        return Api(self.clients[name])


def operations(deployed: Deployment) -> list[str]:
    """`GET /api/...`: all that the server says it answers, what destroys last, and of that the widest."""
    with deployed.client() as client:
        paths = Api(client).call("GET", "/openapi.json")["paths"]
    found = [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]
    order = {"GET": 0, "POST": 1, "PUT": 1, "PATCH": 1, "DELETE": 2}
    return sorted(found, key=lambda name: (order[name.split()[0]], -name.count("/"), name))


def sent(client: httpx2.Client, name: str, ids: Ids) -> httpx2.Response:
    """This operation with these ids in its path, its query and its body."""
    method, path = name.split()
    rule = RULES[name]
    for parameter in re.findall(r"{(\w+)}", path):
        path = path.replace(f"{{{parameter}}}", str(ids[parameter]))
    options: dict[str, Any] = {"params": rule.query(ids)}
    if rule.file:
        options |= {"files": [("files", ("walk.md", b"A page of the walk."))], "data": rule.body(ids)}
    else:
        options["json"] = rule.body(ids)
    return client.request(method, path, **options)


def names_theirs(name: str) -> bool:
    """Whether the path of the operation names something of a base."""
    return "{" in name


def leaked(world: World, response: httpx2.Response, asked: Ids) -> set[str]:
    """What of base Y is in the answer and was not in the question."""
    said = {str(value) for value in asked.values() if not isinstance(value, list)}
    said |= {str(value) for values in asked.values() if isinstance(values, list) for value in values}
    text = response.text + shown(dict(response.headers))
    return {canary for canary in world.canaries - said if canary in text}


@pytest.fixture(scope="module")
def world(cluster: Deployment) -> Iterator[World]:
    with ExitStack() as stack:
        yield _made(cluster, stack)


def _made(deployed: Deployment, stack: ExitStack) -> World:
    clients = {"admin": stack.enter_context(deployed.client())}
    admin = Api(clients["admin"])
    ours = admin.make_base("Ferries")
    theirs = admin.make_base(f"{CANARY} files", description=f"About {CANARY}s.", category=f"{CANARY} things")
    key_ids = {}
    for name, role, bases in (
        ("editor", "editor", [ours]),
        ("reader", "reader", [ours]),
        ("neighbour", "reader", [ours]),
        ("both", "editor", [ours, theirs]),
    ):
        made = admin.call("POST", "/api/keys", {"name": name, "role": role, "bases": bases}, status=201)
        key_ids[name], clients[name] = made["key_id"], stack.enter_context(deployed.client(made["key"]))
    world = World(deployed=deployed, mine={}, theirs={}, clients=clients)
    both = world.api("both")
    both.upload(ours, ("ferry.md", OURS.encode()))
    both.upload(theirs, (f"{CANARY}.md", THEIRS.encode()))
    world.mine = _ids(admin, both, ours) | {"key_id": key_ids["neighbour"]}
    world.theirs = _ids(admin, both, theirs) | {"key_id": key_ids["both"]}
    world.mine["elsewhere"] = world.theirs["elsewhere"] = world.theirs["document_id"]
    ids = [value for value in world.theirs.values() if isinstance(value, str)]
    said = both.call("GET", f"/api/sessions/{world.theirs['session_id']}")
    assert CANARY in shown(said["items"][-1]), "their session has no citation that could come back"
    world.canaries = {CANARY, "ninety-one", *ids, *(message["message_id"] for message in said["items"])}
    return world


def _ids(admin: Api, owner: Api, base_id: str) -> dict[str, Any]:
    """Of a base with one document: what the names in paths can stand for."""
    (document,) = admin.settled(base_id).values()
    assert document["status"] == "ready"
    chunks = admin.call("GET", f"/api/documents/{document['document_id']}/chunks")["items"]
    (job, *_) = admin.call("GET", "/api/jobs", params={"base_id": base_id})["items"]
    found = {
        "base_id": base_id,
        "bases": [base_id],
        "document_id": document["document_id"],
        "chunk_id": chunks[0]["chunk_id"],
        "job_id": job["job_id"],
    }
    return found | _talk(owner, base_id)


def _talk(owner: Api, base_id: str) -> dict[str, str]:
    session_id = owner.make_session(base_id)
    events = owner.say(session_id, "What lies at the pier of the ferry to Halm?")
    assert events[-1].name == "done", events[-1]
    return {"session_id": session_id, "message_id": owner.messages(session_id)[-1]["message_id"]}


def test_every_endpoint_has_a_rule_of_the_walk(cluster: Deployment) -> None:
    """A new endpoint fails here until it is said how the walk calls it."""
    assert set(operations(cluster)) == set(RULES)


@pytest.mark.parametrize("role", ["reader", "editor"])
def test_no_endpoint_shows_a_key_of_one_base_anything_of_another(world: World, role: str) -> None:
    """Their ids are answered as ids that do not exist: 404, or what the role may not do at all."""
    admin, client = world.api("admin"), world.clients[role]
    before = _seen(admin, world)
    own = world.mine | _talk(world.api(role), world.mine["base_id"])
    nowhere = dict.fromkeys(own, NOWHERE) | {"bases": [NOWHERE]}
    faults: list[str] = []
    for name in operations(world.deployed):
        for theirs, missing in _mixed(name, own, world.theirs, nowhere):
            faults += _compared(world, client, name, theirs, missing)
        answer = sent(client, name, own)
        allowed = (403,) if RULES[name].admin else RULES[name].own
        if answer.status_code not in allowed and not (role == "reader" and answer.status_code == 403):
            faults.append(f"{name} with ids of its own: {answer.status_code} {answer.text[:300]}")
        if leak := leaked(world, answer, own):
            faults.append(f"{name} with ids of its own shows {leak}")
    assert not faults, "\n".join(faults)
    assert _seen(admin, world) == before, "the walk has changed what it may not even see"


def _mixed(name: str, own: Ids, theirs: Ids, nowhere: Ids) -> list[tuple[Ids, Ids]]:
    """All ids theirs; and each of the path's alone among ids of one's own; with none that exist instead."""
    parameters = re.findall(r"{(\w+)}", name)
    mixed: list[tuple[Ids, Ids]] = [(theirs, nowhere)]
    if len(parameters) > 1:
        for one in parameters:
            mixed.append(({**own, one: theirs[one]}, {**own, one: nowhere[one]}))
    return mixed


def _compared(world: World, client: httpx2.Client, name: str, theirs: Ids, missing: Ids) -> list[str]:
    rule = RULES[name]
    answer, absent = sent(client, name, theirs), sent(client, name, missing)
    faults = [f"{name} shows {leak}" for leak in leaked(world, answer, theirs)]
    if answer.status_code != absent.status_code:
        faults.append(f"{name}: {answer.status_code} for theirs, {absent.status_code} for what is nowhere")
    asks = "{" in name or (rule.body(theirs), rule.query(theirs)) != (rule.body(missing), rule.query(missing))
    # A list of what is nowhere may be an empty one.
    refused = (403, 404) if "{" in name or rule.body(theirs) is not None else (200, 202, 403, 404)
    if asks and answer.status_code not in refused:
        faults.append(f"{name} of theirs: {answer.status_code} {answer.text[:300]}")
    if answer.status_code == 403 and not rule.admin and "editor" not in answer.text:
        faults.append(f"{name} of theirs is forbidden instead of not found: {answer.text[:300]}")
    return faults


def _seen(admin: Api, world: World) -> dict[str, Any]:
    """What there is of base Y, as an admin sees it."""
    base_id, session_id = world.theirs["base_id"], world.theirs["session_id"]
    jobs = admin.call("GET", "/api/jobs", params={"base_id": base_id})["items"]
    base = admin.call("GET", f"/api/bases/{base_id}")
    del base["accesses"]  # this look at it is one
    return {
        "base": base,
        "documents": admin.documents(base_id),
        "chunks": admin.call("GET", f"/api/documents/{world.theirs['document_id']}/chunks"),
        "session": admin.call("GET", f"/api/sessions/{session_id}"),
        "jobs": [(job["job_id"], job["state"]) for job in jobs],
    }


FILTERS: Sequence[Callable[[World], str | None]] = (
    lambda world: None,
    lambda world: f"base_id == '{world.theirs['base_id']}'",
    lambda world: f"base_id != '{world.mine['base_id']}'",
    lambda world: f"document_id == '{world.theirs['document_id']}' or nowhere != 1",
    lambda world: "not (nowhere == 1)",
)


@pytest.mark.parametrize("wanted", FILTERS)
@pytest.mark.parametrize("bases", ["all", "own"])
def test_no_filter_widens_what_a_key_sees(
    world: World, wanted: Callable[[World], str | None], bases: str
) -> None:
    """Row W05: a request's filter is within the key's scope, in every mode and in the model's prompt."""
    api = world.api("reader")
    chosen = None if bases == "all" else world.mine["bases"]
    for mode in ("hybrid", "vector", "text"):
        hits = api.search(CANARY, chosen, filter=wanted(world), mode=mode, top_k=50)
        assert {hit["base_id"] for hit in hits} <= {world.mine["base_id"]}
        assert CANARY not in shown([{**hit, "query": ""} for hit in hits])
    asked = api.ask(f"Where does the {CANARY} sleep?", chosen, filter=wanted(world))
    assert "ninety-one" not in shown(asked)
    assert {source["base_id"] for source in asked["sources"]} <= {world.mine["base_id"]}


def test_the_score_of_a_probe_says_nothing_of_hidden_bases(world: World) -> None:
    """Equal to the last digit: how often a hidden base holds a word, or whether it does, weighs nothing."""
    api, both = world.api("editor"), world.api("both")
    base_id = world.mine["base_id"]
    for number, word in enumerate((CANARY, "Grottenolm", "pier")):
        api.upload(base_id, (f"probe {number}.md", f"{word} harbour lantern.".encode()))
    api.settled(base_id)

    def scores() -> dict[tuple[str, str], Any]:
        asked = (CANARY, f"{CANARY} lantern", "Grottenolm lantern", "pier lantern nowhere")
        return {
            (text, mode): [(hit["chunk_id"], hit["scores"]) for hit in api.search(text, None, mode=mode)]
            for text in asked
            for mode in ("text", "hybrid")
        }

    before = scores()
    assert all(before.values())
    hidden = world.theirs["base_id"]
    for number in range(5):
        both.upload(hidden, (f"more {number}.md", f"{CANARY} {number}: a Grottenolm and a lantern.".encode()))
        both.settled(hidden)
        assert scores() == before


def test_ids_of_jobs_say_nothing_of_other_jobs(world: World) -> None:
    """A number that counts would tell a key how much is done in bases that it cannot see."""
    api = world.api("editor")
    items = api.call("GET", "/api/jobs", params={"base_id": world.mine["base_id"]})["items"]
    assert items
    assert all(re.fullmatch(r"[0-9a-f]{32}", job["job_id"]) for job in items)


def test_what_a_key_may_not_see_never_reaches_the_model(world: World, chat_provider: Any) -> None:
    chat_provider.requests.clear()
    api = world.api("reader")
    session_id = api.call("POST", "/api/sessions", {"bases": None}, status=201)["session_id"]
    events = api.say(session_id, f"Where does the {CANARY} sleep?")
    events += api.say(session_id, "And what is below the pier?")
    assert chat_provider.requests
    assert "ninety-one" not in shown([request.body for request in chat_provider.requests])
    assert "ninety-one" not in shown([event.data for event in events])
    exported = world.clients["reader"].get(f"/api/sessions/{session_id}/export").text
    assert "pier" in exported
    assert "ninety-one" not in exported


def test_a_session_cannot_be_moved_to_bases_outside_the_key(world: World) -> None:
    """Rows A92, W19."""
    api = world.api("reader")
    both = [world.mine["base_id"], world.theirs["base_id"]]
    api.call("POST", "/api/sessions", {"bases": both}, status=404)
    session_id = api.make_session(world.mine["base_id"])
    api.call("PATCH", f"/api/sessions/{session_id}", {"bases": both}, status=404)
    assert api.call("GET", f"/api/sessions/{session_id}")["bases"] == world.mine["bases"]


def test_a_session_belongs_to_the_key_that_made_it(world: World) -> None:
    """Another key of the same base sees it neither in the list nor by its id; an admin does."""
    session_id = _talk(world.api("reader"), world.mine["base_id"])["session_id"]
    other = world.api("neighbour")
    assert session_id not in shown(other.call("GET", "/api/sessions"))
    other.call("GET", f"/api/sessions/{session_id}", status=404)
    other.call("GET", f"/api/sessions/{session_id}/export", status=404)
    admin = world.api("admin")
    assert admin.call("GET", f"/api/sessions/{session_id}")["session_id"] == session_id


def test_the_same_bytes_in_a_base_that_is_not_seen_are_no_duplicate(world: World) -> None:
    """`duplicate` would say that somebody else has this very file."""
    (made,) = world.api("editor").upload(world.mine["base_id"], ("copy.md", THEIRS.encode()))
    assert made["duplicate"] is False
    assert made["document"]["document_id"] != world.theirs["document_id"]


def test_a_limited_key_makes_no_keys_and_reads_no_audit(world: World) -> None:
    api = world.api("editor")
    api.call("POST", "/api/keys", {"name": "mine", "role": "reader"}, status=403)
    api.call("GET", "/api/audit", status=403)
