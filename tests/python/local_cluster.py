"""Runs an application on Spark's own little cluster: a driver, and executors that are processes.

For what one JVM can't show: executors that are killed, speculation, jars that have to travel. Use
it like ``spark_apps.run_app``, with a folder for what the cluster writes::

    def app(folder):
        spark = pb.configure(build({"spark.task.maxFailures": "1"})).getOrCreate()
        ...

    answer = run_on_cluster(app, tmp_path, str(tmp_path))

All its executors are on one host. Speculation wants two: ``two_hosts`` starts a standalone cluster
with two workers, each with an address of its own.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from spark_apps import SOURCES, answer_of, app_text, environment


def run_on_cluster(
    app: Callable[..., Any],
    folder: Path,
    *arguments: Any,
    executors: int = 2,
    cores: int = 1,
    memory_mb: int = 1024,
    limit_s: float = 120,
) -> Any:
    """What ``app(*arguments)`` returns; its ``build`` makes sessions on a cluster of its own.

    If it gives no answer, the test fails with the ends of the driver's and the executors' logs.
    """
    command = [sys.executable, "-c", app_text(app, *arguments)]
    try:
        return answer_of(command, cluster_environment(folder, executors, cores, memory_mb), limit_s)
    except Exception as problem:
        raise AssertionError(f"{problem}\n{executor_logs(folder)}") from problem


def cluster_environment(
    folder: Path, executors: int = 2, cores: int = 1, memory_mb: int = 1024
) -> dict[str, str]:
    """The environment of a driver whose master, unless it names one, is a cluster of its own."""
    env = _environment(folder)
    # Executors are reached under this name; that of the machine may resolve to nothing.
    env["SPARK_LOCAL_HOSTNAME"] = "localhost"
    env["PYSPARK_SUBMIT_ARGS"] = (
        f"--master local-cluster[{executors},{cores},{memory_mb}] "
        f"--conf spark.executor.memory={memory_mb}m pyspark-shell"
    )
    return env


@contextmanager
def two_hosts(folder: Path, memory_mb: int = 1024) -> Iterator[dict[str, str]]:
    """A standalone cluster of two workers with a core each, on 127.0.0.1 and 127.0.0.2 (Linux).

    Gives the environment of its drivers. Everything it started is gone at the end.
    """
    env = _environment(folder) | {"SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_MEMORY": "512m"}
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = ["worker.Worker", "--cores", "1", "--memory", f"{memory_mb}m", "--webui-port", "0"]
    # Workers look for their master until it is there.
    commands = [master] + [[*worker, "--host", f"127.0.0.{i}", address] for i in (1, 2)]
    daemons = [_daemon(command, folder, env, f"daemon-{i}") for i, command in enumerate(commands)]
    conf = f"--conf spark.driver.host=127.0.0.1 --conf spark.executor.memory={memory_mb}m"
    try:
        yield env | {"PYSPARK_SUBMIT_ARGS": f"--master {address} {conf} pyspark-shell"}
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(30)


def _daemon(command: list[str], folder: Path, env: dict[str, str], name: str) -> Any:
    with open(folder / f"{name}.log", "wb") as log:
        start = [str(folder / "spark-home" / "bin" / "spark-class")]
        start += [f"org.apache.spark.deploy.{command[0]}", *command[1:]]
        return subprocess.Popen(start, env=env, stdout=log, stderr=log)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def executor_logs(folder: Path, most: int = 3000) -> str:
    """The ends of what the executors wrote to stderr."""
    logs = sorted((folder / "spark-home" / "work").glob("*/*/stderr"))
    return "\n".join(f"--- executor {log.parent.name}\n{log.read_text()[-most:]}" for log in logs)


def _environment(folder: Path) -> dict[str, str]:
    """Executors are started from the jars in SPARK_HOME and get their folders in SPARK_HOME/work;
    so it is a folder of links into the installed package."""
    home = folder / "spark-home"
    if not home.exists():
        home.mkdir()
        for entry in Path(pyspark.__file__).parent.iterdir():
            if entry.name != "work":
                (home / entry.name).symlink_to(entry)
    return environment(SOURCES) | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
