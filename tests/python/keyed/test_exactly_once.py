"""Exactly once: a query whose parts are killed at random ends like one that is left alone."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from keyed import chaos_app, streams
from keyed.chaos import KINDS, Chaos, carried, write_input
from spark_support import FILE_MANAGER

# Executors have no copy of the application.
cloudpickle.register_pickle_by_value(chaos_app)

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
# By day a run has few kills, since each of a driver or a job starts another driver. A worker is
# killed in test_task_retries.
FEW = {"executor": 1, "driver": 1}
MANY = {"worker": 2, "task": 2, "job": 1, "executor": 1, "driver": 1}
ROUNDS = int(os.environ.get("PILLARBOX_KILL_ROUNDS", "5"))


def settings(
    folder: Path, backend: str, time_sorted: bool, format: int = 1, **conf: str
) -> dict[str, Any]:
    """Of the application: a small cluster of two executors, which never gives up."""
    return {
        "input": str(folder / "in"),
        "backend": backend,
        "time_sorted": time_sorted,
        "master": "local-cluster[2,1,1024]",
        "conf": {
            "spark.ui.enabled": "false",
            "spark.ui.liveUpdate.period": "0",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.task.maxFailures": "1000",
            "spark.stage.maxConsecutiveAttempts": "1000",
            "spark.deploy.maxExecutorRetries": "-1",
            MANAGER: FILE_MANAGER,
            "spark.shuffle.io.maxRetries": "1",
            "spark.shuffle.io.retryWait": "50ms",
            "spark.pillarbox.state.snapshotEvery": "3",
            "spark.pillarbox.state.maintenanceInterval": "1s",
            "spark.sql.streaming.minBatchesToRetain": "5",
            "spark.sql.streaming.stateStore.checkpointFormatVersion": str(format),
            "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution."
            "streaming.state.RocksDBStateStoreProvider",
            **conf,
        },
    }


def files_for(kills: dict[str, int]) -> int:
    """One for each kill, which comes after it, and two that nothing disturbs."""
    return sum(kills.values()) + 2


@pytest.fixture(scope="module")
def undisturbed(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., list[list[Any]]]:
    """What a run without kills gives, time-sorted or not, of so many files."""

    @functools.cache
    def of(time_sorted: bool, files: int, **more: Any) -> list[list[Any]]:
        folder = tmp_path_factory.mktemp("undisturbed")
        write_input(folder / "in", files)
        chosen = {**settings(folder, "heap", time_sorted, 2), "folder": str(folder / "run"), **more}
        with streams.settings(spark, **{MANAGER: FILE_MANAGER}):
            return chaos_app.undisturbed(spark, chosen)

    return of


def check(
    folder: Path,
    chosen: dict[str, Any],
    kills: dict[str, int],
    seed: int,
    undisturbed: Any,
    whats: frozenset[str] = frozenset(["row", "event", "clock", "state"]),
) -> None:
    files = files_for(kills)
    calls = {"async": True} if "async" in chosen else {}
    expected = undisturbed(chosen["time_sorted"], files, **calls)
    assert {row[1] for row in expected} == whats
    write_input(folder / "in", files)
    if "beside" in chosen:
        expected = expected + carried(folder / "in", chosen["beside"]["after"])
    chaos = Chaos(folder / "run", chosen, kills, seed)
    rows = chaos.run()
    assert chaos.done == kills
    chaos.compare(rows, expected)


def test_a_keyed_query_and_one_with_carry_over_end_the_same_whatever_is_killed(
    tmp_path: Path, undisturbed: Any
) -> None:
    """By day, in one application; each kill meets both. Alone, each has a test of its own. With the
    second driver the keyed query has other partitions."""
    beside = {"after": "windows", "ordered": False}
    chosen = {**settings(tmp_path, "rocksdb", False, 2), "beside": beside}
    check(tmp_path, {**chosen, "partitions": [2, 3]}, FEW, 2, undisturbed)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("backend", "time_sorted", "format"), [("rocksdb", False, 2), ("heap", True, 1)]
)
def test_output_and_state_are_the_same_whatever_is_killed(
    tmp_path: Path, undisturbed: Any, backend: str, time_sorted: bool, format: int
) -> None:
    chosen = settings(tmp_path, backend, time_sorted, format)
    check(tmp_path, chosen, MANY, format, undisturbed)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("backend", "time_sorted", "format"), [("rocksdb", True, 2), ("heap", False, 1)]
)
def test_state_moves_to_other_partitions_whatever_is_killed(
    tmp_path: Path, undisturbed: Any, backend: str, time_sorted: bool, format: int
) -> None:
    """Each start has another number, and most starts end in their first micro-batches."""
    chosen = {**settings(tmp_path, backend, time_sorted, format), "partitions": [2, 5, 3, 1, 4]}
    kills = {"worker": 1, "task": 2, "job": 4, "executor": 2, "driver": 2}
    check(tmp_path, chosen, kills, format, undisturbed)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("backend", "time_sorted", "format"), [("rocksdb", False, 2), ("heap", True, 1)]
)
def test_calls_of_coroutines_count_once_whatever_is_killed(
    tmp_path: Path, undisturbed: Any, backend: str, time_sorted: bool, format: int
) -> None:
    """A third of the attempts fail or hang when they have written; that is in neither run."""
    chosen = {**settings(tmp_path, backend, time_sorted, format), "async": True}
    check(tmp_path, chosen, MANY, format, undisturbed, frozenset(["row", "state"]))


def slow(chosen: dict[str, Any], slow_s: float) -> dict[str, Any]:
    """Rows take a random time, so that there is more to hit."""
    return {**chosen, "slow_s": slow_s}


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["rocksdb", pytest.param("heap", marks=pytest.mark.soak)])
def test_speculation_changes_nothing(tmp_path: Path, undisturbed: Any, backend: str) -> None:
    """Copies of tasks that seem slow run at the same time, and one of them wins."""
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "10ms",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.minTaskRuntime": "0ms",
    }
    chosen = slow(settings(tmp_path, backend, False, 2, **speculation), 0.03)
    chosen["master"] = "local-cluster[2,2,1024]"
    check(tmp_path, chosen, {"executor": 1, "task": 1}, 3, undisturbed)


@pytest.mark.soak
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("backend", ["rocksdb", "heap"])
def test_dozens_of_kills_of_calls_of_coroutines(
    tmp_path: Path, undisturbed: Any, backend: str, format: int
) -> None:
    chosen = {**settings(tmp_path, backend, False, format), "async": True}
    kills = dict.fromkeys(KINDS, ROUNDS)
    check(tmp_path, chosen, kills, 20 * format, undisturbed, frozenset(["row", "state"]))


@pytest.mark.soak
@pytest.mark.parametrize("time_sorted", [False, True])
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("backend", ["rocksdb", "heap"])
def test_dozens_of_kills(
    tmp_path: Path, undisturbed: Any, backend: str, format: int, time_sorted: bool
) -> None:
    chosen = slow(settings(tmp_path, backend, time_sorted, format), 0.01)
    kills = dict.fromkeys(KINDS, ROUNDS)
    seed = 10 * format + 100 * time_sorted + (backend == "heap")
    check(tmp_path, chosen, kills, seed, undisturbed)
