"""Mixed use while something is killed each minute; afterwards nothing may be lost or left over.

    python benchmarks/soak.py [--minutes 20] [--every 60] [--people 4] [--seed N]

The application runs as a cluster: `ragstone serve`, two `ragstone worker`, PostgreSQL, Redis and S3,
with a chat model that takes its time. People upload, delete, search, ask, talk in sessions and go away
in the middle of an answer. Each minute one of the API, a worker or PostgreSQL is killed with SIGKILL
and started again after a moment. At the end every document whose upload was acknowledged must be
ready and found, none that was deleted may be there, every message has a final status, and
`ragstone doctor --deep` finds nothing left over. Writes benchmarks/results/soak.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import secrets
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import httpx2
import psutil

from api import Api, Unexpected
from deployment import Deployment, cluster
from provider import threaded
from services import wait_until

RESULTS = Path(__file__).parent / "results" / "soak.md"
DOWN_S = 2.0
SETTLE_S = 240.0
FINAL = {"complete", "partial", "failed"}
# While something is down these are the honest answers.
AWAY = {409, 429, 503}
WORDS = (
    *("ferry", "harbour", "lantern", "orchard", "turbine", "glacier", "archive", "market", "violin"),
    *("渡轮", "灯塔", "果园", "档案", "集市"),
)


@dataclass
class Ledger:
    """What people were told, to be compared with what is there at the end."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    kept: dict[str, str] = field(default_factory=dict[str, str])
    """document_id -> a word that only this document holds."""
    deleted: set[str] = field(default_factory=set[str])
    unsure: set[str] = field(default_factory=set[str])
    """Deletions that were not answered."""
    sessions: set[str] = field(default_factory=set[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])

    def count(self, name: str) -> None:
        with self.lock:
            self.counts[name] += 1

    def fault(self, text: str) -> None:
        with self.lock:
            self.faults.append(text)


class Idle(Exception):
    """There is nothing yet to do that with."""


class Person(threading.Thread):
    """Does one thing after the other until told to stop."""

    def __init__(self, deployed: Deployment, base_id: str, ledger: Ledger, seed: int, stop: threading.Event):
        super().__init__(name=f"person {seed}")
        self._deployed, self._base, self._ledger, self._stopped = deployed, base_id, ledger, stop
        self._random = random.Random(seed)
        self._sessions: list[str] = []
        self._actions: list[tuple[Callable[[Api], None], float]] = [
            (self.upload, 5),
            (self.delete, 5),
            (self.edit, 1),
            (self.search, 4),
            (self.ask, 2),
            (self.talk, 4),
            (self.leave, 2),
            (self.look, 2),
            (self.reindex, 0.1),
        ]

    def run(self) -> None:
        actions, weights = zip(*self._actions, strict=True)
        with self._deployed.client(timeout=60) as client:
            api = Api(client)
            while not self._stopped.is_set():
                (action,) = self._random.choices(actions, weights)
                name = action.__name__
                try:
                    action(api)
                    self._ledger.count(name)
                except Idle:
                    continue
                except httpx2.TransportError:
                    self._ledger.count(f"{name}: connection lost")
                    self._stopped.wait(0.5)
                except Unexpected as answer:
                    self._ledger.count(f"{name}: {answer.status}")
                    if answer.status not in AWAY:
                        self._ledger.fault(str(answer))
                    self._stopped.wait(0.5)
                self._stopped.wait(self._random.uniform(0.0, 0.3))

    def upload(self, api: Api) -> None:
        """One to four files at once."""
        words = [f"w{secrets.token_hex(6)}" for _ in range(self._random.randint(1, 4))]
        made = api.upload(self._base, *((f"{word}.md", self._page(word)) for word in words))
        with self._ledger.lock:
            self._ledger.kept |= {
                item["document"]["document_id"]: word for item, word in zip(made, words, strict=True)
            }

    def _page(self, word: str) -> bytes:
        text = " ".join(self._random.choices(WORDS, k=self._random.randint(20, 1_000)))
        return f"# {word}\n\nThe word of this page is {word}. {text}.\n".encode()

    def delete(self, api: Api) -> None:
        with self._ledger.lock:
            if len(self._ledger.kept) < 10:
                raise Idle
            chosen = self._random.choice(list(self._ledger.kept))
            del self._ledger.kept[chosen]
            self._ledger.unsure.add(chosen)
        api.call("DELETE", f"/api/documents/{chosen}")
        with self._ledger.lock:
            self._ledger.unsure.discard(chosen)
            self._ledger.deleted.add(chosen)

    def search(self, api: Api) -> None:
        api.search(self._question(), [self._base])

    def ask(self, api: Api) -> None:
        api.ask(self._question(), [self._base])

    def talk(self, api: Api) -> None:
        if not self._sessions or self._random.random() < 0.1:
            made = api.make_session(self._base)
            self._sessions.append(made)
            with self._ledger.lock:
                self._ledger.sessions.add(made)
        events = api.say(self._random.choice(self._sessions), self._question())
        if not events or events[-1].name not in ("done", "error"):
            self._ledger.count("talk: stream broke off")

    def leave(self, api: Api) -> None:
        """Go away after a few words."""
        if not self._sessions:
            raise Idle
        path = f"/api/sessions/{self._random.choice(self._sessions)}/messages/stream"
        left = self._random.randint(1, 8)
        with api.stream(path, {"question": self._question()}) as events:
            for count, _ in enumerate(events):
                if count >= left:
                    break

    def look(self, api: Api) -> None:
        api.call("GET", f"/api/bases/{self._base}/documents", params={"limit": 20})
        if self._sessions:
            api.messages(self._random.choice(self._sessions))

    def edit(self, api: Api) -> None:
        with self._ledger.lock:
            if not self._ledger.kept:
                raise Idle
            chosen = self._random.choice(list(self._ledger.kept))
        try:
            api.call("PATCH", f"/api/documents/{chosen}", {"category": self._random.choice(WORDS)})
        except Unexpected as answer:
            if answer.status != 404:  # somebody has deleted it meanwhile
                raise

    def reindex(self, api: Api) -> None:
        api.call("POST", f"/api/bases/{self._base}/reindex", status=202)

    def _question(self) -> str:
        return f"Where is the {' and the '.join(self._random.choices(WORDS, k=2))}?"


def kill_one(deployed: Deployment, name: str, busy: Person) -> None:
    """SIGKILL and, after a moment, another start. A worker is killed while there is work for it."""
    assert deployed.postgres is not None
    if name.startswith("worker"):
        with deployed.client() as client, suppress(httpx2.TransportError, Unexpected):
            for _ in range(3):
                busy.upload(Api(client))
    if name == "PostgreSQL":
        deployed.postgres.kill()
        time.sleep(DOWN_S)
        deployed.postgres.start()
    else:
        deployed.kill(name)
        time.sleep(DOWN_S)
        deployed.start(name)


def resident(deployed: Deployment) -> dict[str, float]:
    """MB of each process of ours."""
    return {
        name: psutil.Process(running.pid).memory_info().rss / 1e6
        for name, running in deployed.running.items()
    }


@dataclass(kw_only=True)
class Outcome:
    minutes: float
    killed: Counter[str]
    ledger: Ledger
    lost: list[str]
    unfinished: list[str]
    undead: list[str]
    messages: Counter[str]
    again: int
    doctor: str
    clean: bool
    settled_s: float
    before: dict[str, float]
    after: dict[str, float]

    @property
    def faults(self) -> int:
        return (
            len(self.lost)
            + len(self.unfinished)
            + len(self.undead)
            + len(self.ledger.faults)
            + (not self.clean)
        )


def used(deployed: Deployment, base_id: str, options: argparse.Namespace) -> tuple[Ledger, Counter[str]]:
    """People at work for the time given, with a kill every so often."""
    ledger, stop, killed = Ledger(), threading.Event(), Counter[str]()
    chance = random.Random(options.seed)
    people = [Person(deployed, base_id, ledger, options.seed + n, stop) for n in range(options.people)]
    busy = Person(deployed, base_id, ledger, options.seed - 1, stop)  # does only what it is told
    for person in people:
        person.start()
    until = time.monotonic() + options.minutes * 60
    targets: list[str] = []
    try:
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(options.every, left))
            if until - time.monotonic() > DOWN_S:
                if not targets:  # each once before any is killed again
                    targets = [*deployed.names, "PostgreSQL"]
                    chance.shuffle(targets)
                name = targets.pop()
                print(
                    f"{(options.minutes * 60 - (until - time.monotonic())):5.0f} s: kill {name}", flush=True
                )
                kill_one(deployed, name, busy)
                killed[name] += 1
            for name, running in deployed.running.items():
                if running.poll() is not None:
                    ledger.fault(f"{name} ended by itself: {deployed.log_of(name).read_text()[-1_000:]}")
                    deployed.stop(name)
                    deployed.start(name)
    finally:
        stop.set()
        for person in people:
            person.join(120)
    return ledger, killed


def judged(deployed: Deployment, base_id: str, ledger: Ledger) -> tuple[list[str], list[str], list[str]]:
    """(documents lost, documents that never became ready, deleted ones that are still there)."""
    with deployed.client() as client:
        api = Api(client)
        there = {item["document_id"]: item for item in api.documents(base_id)}
        lost = [document_id for document_id in ledger.kept if document_id not in there]
        unfinished = [
            f"{document_id} ({there[document_id]['status']})"
            for document_id in ledger.kept
            if document_id in there and there[document_id]["status"] != "ready"
        ]
        for document_id, word in ledger.kept.items():
            if document_id in there and there[document_id]["status"] == "ready":
                hits = api.search(word, [base_id], mode="text")
                if document_id not in {hit["document_id"] for hit in hits}:
                    lost.append(f"{document_id} is not found by its word {word}")
        return lost, unfinished, [document_id for document_id in ledger.deleted if document_id in there]


def spoken(deployed: Deployment, ledger: Ledger) -> Counter[str]:
    """Messages of all sessions, by status."""
    with deployed.client() as client:
        api = Api(client)
        return Counter(
            message["status"] for session_id in ledger.sessions for message in api.messages(session_id)
        )


def begun_again(deployed: Deployment) -> int:
    """Jobs that were taken up by another attempt."""
    count, offset = 0, 0
    with deployed.client() as client:
        while True:
            page = {"limit": 200, "offset": offset}
            jobs = Api(client).call("GET", "/api/jobs", params=page)["items"]
            if not jobs:
                return count
            count += sum(job["attempts"] > 1 for job in jobs)
            offset += len(jobs)


def soak(options: argparse.Namespace) -> Outcome:
    pieces = ["The answer is ", "in the passage [1]. ", *(f"word{n} " for n in range(20)), "End."]
    # Two seconds an answer: a kill meets some in the middle.
    with (
        threaded(chat=lambda body: pieces, delay=0.2, pace=0.08) as provider,
        tempfile.TemporaryDirectory(prefix="ragstone-soak-") as folder,
        cluster(
            Path(folder),
            chat_base_url=f"{provider.url}/v1",
            chat_model="slow",
            lease_seconds=str(options.lease),
        ) as deployed,
    ):
        with deployed.client() as client:
            base_id = Api(client).make_base("soak")
        before = resident(deployed)
        ledger, killed = used(deployed, base_id, options)
        began = time.monotonic()
        with deployed.client() as client:
            documents = Api(client).settled(base_id, seconds=SETTLE_S)
        wait_until(lambda: set(spoken(deployed, ledger)) <= FINAL, seconds=SETTLE_S, what="messages end")
        settled_s = time.monotonic() - began
        print(f"{len(documents)} documents settled within {settled_s:.0f} s", flush=True)
        lost, unfinished, undead = judged(deployed, base_id, ledger)
        messages, after = spoken(deployed, ledger), resident(deployed)
        again = begun_again(deployed)
        ended = deployed.command("doctor", "--deep", "--json")
        return Outcome(
            minutes=options.minutes,
            killed=killed,
            ledger=ledger,
            lost=lost,
            unfinished=unfinished,
            undead=undead,
            messages=messages,
            again=again,
            doctor=(ended.stdout or ended.stderr).strip(),
            clean=ended.returncode == 0,
            settled_s=settled_s,
            before=before,
            after=after,
        )


def report(outcome: Outcome, options: argparse.Namespace) -> list[str]:
    ledger = outcome.ledger
    return [
        "# Soak",
        "",
        f"    python benchmarks/soak.py --minutes {outcome.minutes:g} --every {options.every:g}"
        f" --people {options.people} --seed {options.seed}",
        "",
        f"API, two workers, PostgreSQL 16, Redis and S3 as processes of one machine with {os.cpu_count()} "
        f"cores (load average {os.getloadavg()[0]:.0f}), Python {platform.python_version()}; "
        f"a lease of {options.lease:g} s. {options.people} people at once; killed with SIGKILL: "
        + (", ".join(f"{name} {count} times" for name, count in sorted(outcome.killed.items())) or "nothing")
        + ".",
        "",
        "| | |",
        "|---|---|",
        f"| documents acknowledged and kept | {len(ledger.kept)} |",
        f"| of these lost or not found | {len(outcome.lost)} |",
        f"| of these not ready at the end | {len(outcome.unfinished)} |",
        f"| jobs that another attempt took up | {outcome.again} |",
        f"| documents deleted | {len(ledger.deleted)} |",
        f"| of these still there | {len(outcome.undead)} |",
        f"| deletions whose answer was cut off | {len(ledger.unsure)} |",
        f"| messages by status | {_counted(outcome.messages)} |",
        f"| messages without a final status | "
        f"{sum(count for status, count in outcome.messages.items() if status not in FINAL)} |",
        f"| answers that are no honest ones (5xx but 503) | {len(ledger.faults)} |",
        f"| `ragstone doctor --deep` | {'clean' if outcome.clean else 'NOT CLEAN'} |",
        f"| seconds until all was at rest after the last action | {outcome.settled_s:.0f} |",
        *(
            f"| resident MB of the {name}, at first and at last | {mb:.0f}, {outcome.after[name]:.0f} |"
            for name, mb in outcome.before.items()
        ),
        "",
        "What people did, and what they met:",
        "",
        "| action | times |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in sorted(ledger.counts.items())),
        *_quoted("Lost", outcome.lost),
        *_quoted("Not ready", outcome.unfinished),
        *_quoted("Deleted but there", outcome.undead),
        *_quoted("Faults", ledger.faults),
        *(() if outcome.clean else _quoted("Doctor", [outcome.doctor])),
    ]


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _quoted(title: str, texts: Sequence[str]) -> list[str]:
    if not texts:
        return []
    lines = [line for text in texts[:10] for line in text.splitlines()[:40]]
    return ["", f"{title}:", "", *(f"    {line}" for line in lines)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--every", type=float, default=60, help="seconds between kills")
    parser.add_argument("--people", type=int, default=4)
    parser.add_argument("--lease", type=float, default=10, help="seconds a dead worker's job is waited for")
    parser.add_argument("--seed", type=int, default=6)
    options = parser.parse_args()
    outcome = soak(options)
    lines = report(outcome, options)
    print("\n".join(lines))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(json.dumps({"faults": outcome.faults}))
    sys.exit(1 if outcome.faults else 0)


if __name__ == "__main__":
    main()
