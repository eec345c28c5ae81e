"""Runs an application on Spark's own little cluster: a driver, and executors that are processes.

For what one JVM can't show: executors that are killed, speculation, jars that have to travel. Use it like
``spark_apps.run_app``, with a folder for what the cluster writes::

    def app(folder):
        spark = pb.configure(build({"spark.speculation": "true"})).getOrCreate()
        ...

    answer = run_on_cluster(app, tmp_path, str(tmp_path))
"""

from __future__ import annotations

import sys
from collections.abc import Callable
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
    """The environment of a driver whose master, unless it names another, is a cluster of its own.

    The driver JVM must find Spark's jars under SPARK_HOME to start executors from, and they get their
    folders in SPARK_HOME/work; so it is a folder of links into the installed package.
    """
    env = environment(SOURCES)
    # Executors are reached under this name; that of the machine may resolve to nothing.
    env["SPARK_LOCAL_HOSTNAME"] = "localhost"
    env["SPARK_LOCAL_IP"] = "127.0.0.1"
    env["SPARK_HOME"] = str(_spark_home(folder))
    env["PYSPARK_SUBMIT_ARGS"] = (
        f"--master local-cluster[{executors},{cores},{memory_mb}] "
        f"--conf spark.executor.memory={memory_mb}m pyspark-shell"
    )
    return env


def executor_logs(folder: Path, most: int = 3000) -> str:
    """The ends of what the executors wrote to stderr."""
    logs = sorted((folder / "spark-home" / "work").glob("*/*/stderr"))
    return "\n".join(f"--- executor {log.parent.name}\n{log.read_text()[-most:]}" for log in logs)


def _spark_home(folder: Path) -> Path:
    home = folder / "spark-home"
    if not home.exists():
        home.mkdir()
        for entry in Path(pyspark.__file__).parent.iterdir():
            (home / entry.name).symlink_to(entry)
    return home
