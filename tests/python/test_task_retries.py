"""Tasks that Spark tries again, that reach a limit of memory, or are stopped in their middle."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_apps import SOURCES, answer_of, environment

APPS = str(Path(__file__).parent / "retries_app.py")


def run(folder: Path, *names: str, limit_s: float = 240) -> Any:
    """The answers of these applications, which one driver runs after each other."""
    command = [sys.executable, APPS, str(folder), *names]
    return answer_of(command, environment(SOURCES), limit_s)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("retries")


@pytest.fixture(scope="module")
def answers(folder: Path) -> Any:
    return run(
        folder, "loses_workers", "memory", "fails_for_ever", "is_stopped_in_the_middle", "metered"
    )


def test_a_task_whose_worker_was_killed_is_tried_again_under_the_same_ids(
    answers: Any, folder: Path
) -> None:
    assert answers["loses_workers"] == [[i, 2 * i] for i in range(200)]
    assert (folder / "killed2").exists()
    calls = {tuple(line.split()) for line in (folder / "ids").read_text().splitlines()}
    # Every row has kept its id over the attempts of its task.
    assert len(calls) == 200


def test_a_worker_that_needs_more_memory_than_it_may_have(answers: Any) -> None:
    """The limit refuses memory to Python, or the system ends the process: either is told."""
    told = answers["memory"]
    assert "greedy" in told["calls"]
    assert "MemoryError" in told["calls"]
    assert "process_keyed(Greedy): The function failed for the key 0 in process" in told["keyed"]
    assert "MemoryError" in told["keyed"]
    assert "process_keyed(Greedy): The Python worker" in told["killed"]
    assert "spark.executor.pyspark.memory allows it 2048 MiB" in told["killed"]


def test_prometheus_reads_the_figures_of_operators_from_the_driver(answers: Any) -> None:
    """Two actions, each with ten rows, all of which are tried twice; one fails for good."""
    counts = {"calls": 40, "retries": 20, "errors": 2, "rows": 20}
    others = "timeouts journalHits rateLimited shared callsInFlight callsWaiting oldestCallMs"
    none = dict.fromkeys(others.split(), 0)
    assert answers["metered"]["async"] == {**counts, **none}
    keyed = answers["metered"]["keyed"]
    assert keyed.pop("rows") == keyed.pop("stateEntries") == 5
    assert set(keyed) == {"eventTimersFired", "processingTimersFired", "lateRows"}
    assert set(keyed.values()) == {0}


def check_attempts(answer: Any) -> None:
    problem, calls = answer
    assert "ConnectionError: the service is down" in problem
    assert 4 <= calls <= 8


def test_a_carried_call_that_always_fails_fails_the_query_after_as_many_attempts_as_a_task_has(
    answers: Any,
) -> None:
    check_attempts(answers["fails_for_ever"])


@pytest.mark.nightly
def test_so_it_does_when_no_row_follows(tmp_path: Path) -> None:
    (tmp_path / "few").mkdir()
    pq.write_table(pa.table({"value": list(range(10))}), tmp_path / "few" / "0.parquet")
    check_attempts(run(tmp_path, "fails_for_ever")["fails_for_ever"])


def test_queries_that_are_stopped_in_the_middle_of_a_batch_leave_no_folders(answers: Any) -> None:
    assert answers["is_stopped_in_the_middle"] > 0


@pytest.mark.parametrize(
    ("name", "limit_s"),
    [
        pytest.param("is_stopped_often", 240, marks=pytest.mark.nightly),
        pytest.param("is_stopped_very_often", 1800, marks=pytest.mark.soak),
    ],
)
def test_however_often_they_are_stopped(tmp_path: Path, name: str, limit_s: float) -> None:
    assert run(tmp_path, name, limit_s=limit_s)[name] > 0
