"""A standalone cluster on two hosts: limits, losses, dynamic allocation, Python from an archive."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from local_cluster import Standalone, executor_logs, standalone
from pillarbox._driver.jars import find_jar
from python_archive import BARE, python_archive
from spark_apps import answer_in
from spark_support import CallLog, eventually
from standalone_apps import FILES, HELD, KEYS, ROWS

APPS = str(Path(__file__).parent / "standalone_apps.py")
SUBMIT = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@contextmanager
def running(cluster: Standalone, command: list[str], env: dict[str, str], folder: Path) -> Any:
    """An application. Gives what waits for its answer."""
    with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
        app = subprocess.Popen(command, env=env, stdout=out, stderr=err)

    def answer() -> Any:
        eventually(lambda: app.poll() is not None, "the application", limit_s=240)
        output, errors = (Path(folder, name).read_text() for name in ("out", "err"))
        return answer_in(output, errors + executor_logs(cluster.folder))

    try:
        yield answer
    finally:
        app.kill()
        app.wait()


def run(cluster: Standalone, name: str, folder: Path) -> Any:
    command = [sys.executable, APPS, name, str(folder)]
    with running(cluster, command, cluster.env, folder) as answer:
        return answer()


def levels(events: list[dict[str, Any]]) -> Iterator[dict[str, int]]:
    """Calls in flight on each host, after each event."""
    flying = dict.fromkeys(Standalone.HOSTS, 0)
    for event in events:
        flying[event["host"]] += 1 if event["event"] == "start" else -1
        yield dict(flying)


@pytest.mark.nightly
def test_executors_on_two_hosts_share_the_limit_of_a_query(
    cluster: Standalone, tmp_path: Path
) -> None:
    count = 400
    assert run(cluster, "limited", tmp_path) == count * (count - 1)
    log = CallLog(str(tmp_path / "calls"))
    found = list(levels(log.events("start", "end")))
    assert len(found) == 2 * count
    assert max(sum(flying.values()) for flying in found) == 4
    # Both have some of the four. Which one begins, and how much earlier, is left to the machine.
    shared = [flying for flying in found if all(flying.values()) and sum(flying.values()) == 4]
    assert len(shared) > 20


@pytest.mark.nightly
def test_figures_of_executors_are_in_their_metrics_and_in_the_driver_s_progress(
    cluster: Standalone, tmp_path: Path
) -> None:
    answer = run(cluster, "watched", tmp_path)
    assert answer["executors"] == 2
    (line,) = answer["lines"]
    assert line.startswith("call: 100 rows, 100 calls, 0 retries, 0 errors in 0:0")


def by_file(log: CallLog) -> list[dict[int, str]]:
    """The executors that saw rows of each file, with their hosts."""
    seen: list[dict[int, str]] = []
    for event in log.events("file", "row"):
        if event["event"] == "file":
            seen.append({})
        else:
            seen[-1][event["executor"]] = event["host"]
    return seen


def check_visits(run: dict[str, Any], files: int = FILES) -> None:
    """What must come out, by arithmetic; when timers fire is left to the watermark."""
    counts = dict.fromkeys((f"key {i}" for i in range(KEYS)), 0)
    rows = []
    for i in range(files * ROWS):
        key = f"key {i % ROWS % KEYS}"
        counts[key] += 1
        rows.append([key, "row", counts[key], i])
    assert [row for row in run["rows"] if row[1] == "row"] == sorted(rows)
    assert run["state"] == sorted(map(list, counts.items()))
    assert len([row for row in run["rows"] if row[1] == "timer"]) > (files - 2) * ROWS


@pytest.mark.nightly
def test_a_keyed_stream_survives_an_executor_and_a_worker_that_are_lost_and_found(
    cluster: Standalone, tmp_path: Path
) -> None:
    command = [sys.executable, APPS, "lost_and_found", str(tmp_path)]
    folder = tmp_path / "killed"
    with running(cluster, command, cluster.env, tmp_path) as answer:
        eventually(lambda: (folder / "worker").exists(), "the kill of a worker", limit_s=180)
        lost = cluster.forget_killed(int((folder / "worker").read_text()))
        cluster.start_worker(lost)
        runs = answer()
    check_visits(runs["quiet"])
    assert runs["killed"] == runs["quiet"]
    files = by_file(CallLog(str(folder / "calls")))
    killed = int((folder / "executor").read_text())
    assert killed in files[1]
    # The worker of the same host has started another one, which takes part.
    assert killed not in files[2]
    assert sorted(files[2].values()) == list(Standalone.HOSTS)
    # The worker's executor has ended with it; the new worker has one.
    (ended,) = [pid for pid, host in files[2].items() if host == lost]
    assert ended in files[3]
    assert ended not in files[4]
    assert sorted(files[4].values()) == list(Standalone.HOSTS)


@pytest.mark.nightly
def test_executors_come_and_go_under_dynamic_allocation(
    cluster: Standalone, tmp_path: Path
) -> None:
    answer = run(cluster, "come_and_go", tmp_path)
    check_visits(answer["busy"], files=2)
    assert answer["idle"] == answer["busy"]
    files = by_file(CallLog(str(tmp_path / "idle" / "calls")))
    assert len(set().union(*files)) == sum(len(executors) for executors in files) >= 2
    assert answer["carried"] == [[i, 2 * i] for i in range(2 * ROWS)]
    log = CallLog(str(tmp_path / "carried" / "calls"))
    held = [event for event in log.events("start") if event["key"] == HELD]
    assert len({event["executor"] for event in held}) == len(held) >= 2
    assert len({event["call_id"] for event in held}) == 1
    # Nothing else is made again than what was in flight when its executor was taken.
    others = [event["key"] for event in log.events("start") if event["key"] != HELD]
    assert len(set(others)) == 2 * ROWS - 1


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return python_archive(tmp_path_factory.mktemp("archive"))


@pytest.mark.nightly
def test_python_comes_as_an_archive(cluster: Standalone, tmp_path: Path, archive: Path) -> None:
    assert subprocess.run([BARE, "-c", "import pyarrow"], stderr=subprocess.DEVNULL).returncode
    settings = [part for one in cluster.conf.items() for part in ("--conf", "=".join(one))]
    command = [SUBMIT, "--master", cluster.address, *settings, "--jars", find_jar()]
    command += ["--archives", f"{archive}#environment", APPS, "shipped", str(tmp_path), BARE]
    env = {key: value for key, value in cluster.env.items() if key != "PYSPARK_SUBMIT_ARGS"}
    env["PYSPARK_PYTHON"] = "./environment/bin/python"
    with running(cluster, command, env, tmp_path) as wait:
        answer = wait()
    assert answer["rows"] == 20
    assert len(answer["keyed"]) == 2
    for python, pyarrow, pillarbox, folder in answer["keyed"]:
        assert Path(folder).is_relative_to(cluster.folder)
        assert Path(python) == Path(folder, "environment/bin/python")
        assert Path(pyarrow).is_relative_to(f"{folder}/environment")
        assert Path(pillarbox).is_relative_to(Path(folder, Path(find_jar()).name))
    assert sorted(answer["calls"]) == sorted(told[:3] for told in answer["keyed"])
    assert "WORKER_IMPORT_FAILED" in answer["problem"]
    assert "No module named 'pyarrow'" in answer["problem"]
    assert f"It runs on {BARE}." in answer["problem"]
