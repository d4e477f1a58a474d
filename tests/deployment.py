"""The whole application as processes: the API, its workers, and the services behind them.

`cluster` is what runs on many machines: `ragstone serve` without a worker of its own and two
`ragstone worker`, on PostgreSQL, Redis and S3 servers. `single` is one `ragstone serve` with
everything embedded. Each process can be killed and started again.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from services import ExternalPostgres, free_port, postgres_server, redis_server, s3_server
from serving import COMMAND, address_of, environment_of, process

TIMEOUT = 60.0


@dataclass(kw_only=True)
class Deployment:
    """Processes of one application. `key` is sent with every request when there is one."""

    home: Path
    settings: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    worker_count: int = 0
    postgres: ExternalPostgres | None = None
    key: str = ""

    def __post_init__(self) -> None:
        self.port = free_port()
        self.running: dict[str, subprocess.Popen[str]] = {}
        self._stacks: dict[str, ExitStack] = {}

    @property
    def names(self) -> list[str]:
        """`api` and `worker 1`, `worker 2`, ..."""
        return ["api", *(f"worker {number + 1}" for number in range(self.worker_count))]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *names: str) -> None:
        """Start these processes, by default all; the API answers afterwards."""
        for name in names or self.names:
            arguments = ("serve", "--port", str(self.port)) if name == "api" else ("worker",)
            settings = dict(self.settings)
            if name == "api" and self.worker_count:
                settings["worker_concurrency"] = "0"
            stack = self._stacks[name] = ExitStack()
            self.running[name] = stack.enter_context(
                process(
                    *arguments,
                    home=self.home,
                    environment=self.environment,
                    log=self.log_of(name),
                    **settings,
                )
            )
        if not names or "api" in names:
            try:
                address_of(self.running["api"])
            except AssertionError as error:
                raise AssertionError(f"{error}\n{self.log_of('api').read_text()[-4_000:]}") from error

    def log_of(self, name: str) -> Path:
        return self.home.parent / f"{name.replace(' ', '-')}.log"

    def stop(self, *names: str) -> None:
        """End them as an orderly stop of the machine does."""
        for name in names or self.names:
            if name in self._stacks:
                self._stacks.pop(name).close()

    def kill(self, name: str) -> None:
        """SIGKILL: it can close and say nothing."""
        self.running[name].kill()
        self._stacks.pop(name).close()

    def client(self, key: str | None = None, *, timeout: float = TIMEOUT) -> httpx2.Client:
        used = self.key if key is None else key
        headers = {"Authorization": f"Bearer {used}"} if used else {}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=timeout, trust_env=False)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`ragstone *arguments` with the settings of the deployment."""
        variables = environment_of(self.home, **self.settings) | dict(self.environment)
        return subprocess.run(
            [*COMMAND, *arguments],
            env=variables,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def admin_key(self) -> str:
        """A key made on the command line."""
        ended = self.command("key", "create", "--name", "owner", "--role", "admin", "--json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)["key"]


@contextmanager
def single(folder: Path, **settings: str) -> Iterator[Deployment]:
    """One process with the embedded database, the local blob folder and a worker inside."""
    home = folder / "home"
    home.mkdir()
    deployed = Deployment(home=home, settings=settings)
    try:
        deployed.start()
        yield deployed
    finally:
        deployed.stop()


@contextmanager
def cluster(folder: Path, *, workers: int = 2, **settings: str) -> Iterator[Deployment]:
    """The API and `workers` workers on PostgreSQL, Redis and S3; an admin's key is asked for."""
    home = folder / "home"
    home.mkdir()
    with ExitStack() as stack:
        folders = {name: folder / name for name in ("redis", "s3")}
        for made in folders.values():
            made.mkdir()
        postgres = stack.enter_context(postgres_server())
        s3 = stack.enter_context(s3_server(folders["s3"]))
        places: dict[str, str] = {
            "database_url": postgres.url,
            "redis_url": stack.enter_context(redis_server(folders["redis"])),
            "blob_url": s3.url("ragstone"),
            "worker_concurrency": "2",
        }
        deployed = Deployment(
            home=home,
            settings=places | settings,
            environment=s3.environment,
            worker_count=workers,
            postgres=postgres,
        )
        deployed.key = deployed.admin_key()
        try:
            deployed.start()
            yield deployed
        finally:
            deployed.stop()


def whole(response: httpx2.Response, status: int = 200) -> Any:
    """The body of an answer that must have this status."""
    assert response.status_code == status, f"{response.request.url}: {response.status_code} {response.text}"
    return response.json() if response.content else None
