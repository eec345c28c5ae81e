"""A Spark Connect server in a process of its own, and clients that have ``pyspark-client`` alone.

``tools/connect_envs`` makes the environments: a client's, and the workers', which have neither
Pillarbox nor PySpark. Use it like ``spark_apps.run_app``, with the server's address for the app::

    def app(address):
        spark = pb.configure(SparkSession.builder.remote(address)).getOrCreate()
        ...

    with connect_server(tmp_path) as server:
        answer = run_client(app, server.address)
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyspark

from pillarbox._driver.client.plugin import PLUGIN, SETTING
from pillarbox._driver.jars import find_jar
from ports import free_port, listens
from spark_apps import SOURCES, answer_of, app_text, environment
from spark_support import eventually

ROOT = Path(__file__).parents[2]
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_S = 90.0


@dataclass(frozen=True)
class Server:
    """``address`` is for ``SparkSession.builder.remote``."""

    address: str
    log: Path
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """The driver and its executors, with SIGKILL."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@cache
def environments() -> Path:
    """The folder of both."""
    subprocess.run([str(ROOT / "tools/connect_envs")], check=True)
    return ROOT / ".build/connect"


@contextmanager
def connect_server(
    folder: Path,
    *,
    port: int | None = None,
    jar: bool = True,
    plugin: bool = True,
    settings: Mapping[str, str] | None = None,
    home: Path = Path(pyspark.__file__).parent,
) -> Iterator[Server]:
    """Runs until the end of the block, or until it is killed. Its cluster has two executors.

    ``home`` is its SPARK_HOME.
    """
    port = free_port() if port is None else port
    told = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        **({SETTING: PLUGIN} if plugin else {}),
        **(settings or {}),
    }
    command = [str(home / "bin/spark-submit"), "--master", "local-cluster[2,1,1024]"]
    command += ["--class", _CLASS, *(["--jars", find_jar()] if jar else [])]
    command += [part for key, value in told.items() for part in ("--conf", f"{key}={value}")]
    folder.mkdir(exist_ok=True)
    log = folder / "server.log"
    env = environment(None) | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_HOSTNAME": "localhost",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "PYSPARK_PYTHON": str(environments() / "workers/bin/python"),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "spark-internal"],
            env=env,
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
        )
    server = Server(f"sc://127.0.0.1:{port}", log, process)
    try:
        eventually(lambda: process.poll() is not None or listens(port), "a server", _START_S)
        assert process.poll() is None, log.read_text()[-4000:]
        yield server
    finally:
        if process.poll() is None:
            server.kill()


def run_client(app: Callable[..., Any], *arguments: Any, limit_s: float = 180) -> Any:
    """What ``app(*arguments)`` returns in a process that has ``pyspark-client`` alone."""
    python = str(environments() / "client/bin/python")
    env = {**environment(SOURCES), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    # pyspark-client takes a main module without a file for a doctest.
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(app_text(app, *arguments))
        file.flush()
        return answer_of([python, file.name], env, limit_s)
