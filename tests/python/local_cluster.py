"""Runs an application on Spark's own little cluster: a driver, and executors that are processes.

For what one JVM can't show: executors that are killed, speculation, jars that have to travel. Use
it like ``spark_apps.run_app``, with a folder for what the cluster writes::

    def app(folder):
        spark = pb.configure(build({"spark.task.maxFailures": "1"})).getOrCreate()
        ...

    answer = run_on_cluster(app, tmp_path, str(tmp_path))

All its executors are on one host. ``standalone`` starts a real cluster, of Spark's own kind, of two
workers with an address each, which can be killed and started again; ``two_hosts`` is the same for
those who want its drivers' environment only.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from ports import free_port
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


class Standalone:
    """A standalone master, and workers with a core each on 127.0.0.1 and 127.0.0.2 (Linux).

    Their environment has neither our sources nor a Python of ours: what executors need has to come
    with the application.
    """

    HOSTS = ("127.0.0.1", "127.0.0.2")

    def __init__(self, folder: Path, memory_mb: int) -> None:
        self.folder, self.memory_mb = folder, memory_mb
        drivers = _environment(folder)
        self.home = drivers["SPARK_HOME"]
        left_out = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
        self._env = {key: value for key, value in drivers.items() if key not in left_out}
        self._env |= {"SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_MEMORY": "512m"}
        port = free_port()
        self.address = f"spark://127.0.0.1:{port}"
        #: The settings of all drivers.
        self.conf = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": f"{memory_mb}m"}
        told = " ".join(f"--conf {key}={value}" for key, value in self.conf.items())
        arguments = f"--master {self.address} {told} pyspark-shell"
        #: The environment of a driver that is started without spark-submit.
        self.env = drivers | {"PYSPARK_SUBMIT_ARGS": arguments}
        at = ["--host", "127.0.0.1", "--port", str(port)]
        self._daemons = [self._daemon("master", "master.Master", *at)]
        for host in self.HOSTS:
            self.start_worker(host)

    def start_worker(self, host: str) -> None:
        """On a host that has none. Workers look for their master until it is there."""
        what = ["--cores", "1", "--memory", f"{self.memory_mb}m", "--host", host]
        self._daemons.append(self._daemon(f"worker-{host}", "worker.Worker", *what, self.address))

    def forget_killed(self, pid: int) -> str:
        """The host of the worker that had this id of a process, which something has killed."""
        (daemon,) = [one for one in self._daemons if one.pid == pid]
        daemon.wait(30)
        self._daemons.remove(daemon)
        return str(daemon.args[daemon.args.index("--host") + 1])

    def stop(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait(30)

    def _daemon(self, name: str, main: str, *arguments: str) -> Any:
        with open(self.folder / f"{name}.log", "ab") as log:
            start = [f"{self.home}/bin/spark-class", f"org.apache.spark.deploy.{main}"]
            start += ["--webui-port", "0", *arguments]
            return subprocess.Popen(start, env=self._env, stdout=log, stderr=log)


@contextmanager
def standalone(folder: Path, memory_mb: int = 1024) -> Iterator[Standalone]:
    """A standalone cluster. Everything it started is gone at the end."""
    cluster = Standalone(folder, memory_mb)
    try:
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def two_hosts(folder: Path, memory_mb: int = 1024) -> Iterator[dict[str, str]]:
    """The environment of the drivers of a standalone cluster."""
    with standalone(folder, memory_mb) as cluster:
        yield cluster.env


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
