"""S3 and HDFS on this machine, from the jars that ``make test-stores`` has fetched."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark

from java_jars import listed_jars, tool
from ports import free_port, free_ports, listens
from spark_support import eventually

BUCKET = "checkpoints"


def missing() -> str | None:
    """Why the tests can't run here; None if they can."""
    if not listed_jars("s3a") or not listed_jars("miniCluster"):
        return "needs Hadoop's jars: make test-stores fetches them"
    try:
        import moto.server  # noqa: F401
    except ImportError as problem:
        return f"needs moto[server], which make test-stores installs: {problem}"
    return None


@dataclass
class Store(ABC):
    """A file system for checkpoints, as long as its process runs."""

    folder: Path
    url: str = ""
    conf: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[Any] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Of the process."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether it takes requests."""

    def start(self) -> None:
        with (self.folder / "store.log").open("a") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, cwd=self.folder)
        process = self.process
        eventually(lambda: process.poll() is not None or self.ready(), "the store", 120)
        assert process.poll() is None, (self.folder / "store.log").read_text()[-3000:]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


class Hdfs(Store):
    """A NameNode and a DataNode in one process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ports = free_ports(2)
        self.url = f"hdfs://localhost:{self.ports[0]}/checkpoints"
        self.conf = {
            "spark.hadoop.dfs.replication": "1",
            "spark.hadoop.ipc.client.connect.max.retries": "3",
            "spark.hadoop.ipc.client.connect.retry.interval": "500",
        }

    def command(self) -> list[str]:
        fresh = [] if (self.folder / "data").exists() else ["-format"]
        spark = Path(pyspark.__file__).parent / "jars"
        classes = ":".join([*listed_jars("miniCluster"), f"{spark}/*"])
        options = {
            "hdfs.minidfs.basedir": self.folder / "data",
            "dfs.namenode.safemode.extension": "0",
            "dfs.permissions.enabled": "false",
        }
        manager = "org.apache.hadoop.test.MiniDFSClusterManager"
        name, web = map(str, self.ports)
        details = str(self.folder / "details.json")
        return [
            *(tool("java"), "-Xmx512m", "-cp", classes, manager, *fresh, "-datanodes", "1"),
            *("-nnport", name, "-httpport", web, "-writeDetails", details),
            *(part for key, value in options.items() for part in ("-D", f"{key}={value}")),
        ]

    def start(self) -> None:
        (self.folder / "details.json").unlink(missing_ok=True)
        super().start()

    def ready(self) -> bool:
        return (self.folder / "details.json").exists() and listens(self.ports[0])


class S3(Store):
    """An S3 endpoint in one process, see ``s3_server``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.url = f"s3a://{BUCKET}"
        self.conf = {
            "spark.jars": ",".join(listed_jars("s3a")),
            "spark.hadoop.fs.s3a.endpoint": f"http://localhost:{self.port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            # Spark's RocksDB store copies files there, which the SDK's asynchronous client does not
            # get through to moto.
            "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled": "false",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.access.key": "none",
            "spark.hadoop.fs.s3a.secret.key": "none",
            "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a."
            "SimpleAWSCredentialsProvider",
        }

    def command(self) -> list[str]:
        server = Path(__file__).with_name("s3_server.py")
        return [sys.executable, str(server), str(self.port), BUCKET]

    def ready(self) -> bool:
        return listens(self.port)

    def ask(self, what: str) -> str:
        with urllib.request.urlopen(f"http://localhost:{self.port}/--{what}") as answer:
            return str(answer.read().decode())

    def fail(self, percent: int) -> None:
        """Of so many of 100 requests that come from now on the server says 503, done or not."""
        self.ask(f"fail/{percent}")

    def failed(self) -> int:
        """How many requests have got a 503."""
        return int(self.ask("failed"))

    def requests(self) -> dict[str, int]:
        """How many there were of each kind."""
        return {
            kind: int(count)
            for kind, count in (line.split() for line in self.ask("requests").splitlines())
        }


@contextmanager
def running(kind: type[Store], folder: Path) -> Iterator[Any]:
    """A store while its process runs; its data are in ``folder`` or in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    store: Any = kind(folder)  # type: ignore[call-arg]
    store.start()
    try:
        yield store
    finally:
        with contextlib.suppress(ProcessLookupError):
            store.kill()
