"""Checkpoints on S3 and on HDFS: whatever is killed or fails, the output is that of a quiet run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyed.chaos import Chaos, write_input
from keyed.test_exactly_once import settings
from stores import S3, Hdfs, missing, running

pytestmark = [pytest.mark.stores, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

FILES = 8
KILLS = {"worker": 1, "task": 2, "job": 1, "executor": 1, "driver": 2}
KEYED = [(backend, format) for backend in ("heap", "rocksdb") for format in (1, 2)]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[list[Any]]]:
    """What an undisturbed run puts out, with its checkpoint on the local disk."""
    known: dict[str, list[list[Any]]] = {}
    folder = tmp_path_factory.mktemp("quiet")
    write_input(folder / "in", FILES)

    def rows(after: str | None) -> list[list[Any]]:
        name = str(after)
        if name not in known:
            asked = asked_of(folder, "heap", 1, after) | {"master": "local[2]", "restarts": 0}
            known[name] = Chaos(folder / name, asked, {}, seed=0).run()
            assert len(known[name]) > FILES
        return known[name]

    return rows


def asked_of(folder: Path, backend: str, format: int, after: str | None) -> dict[str, Any]:
    """Of ``chaos_app``: keyed state, or carried calls with a journal if something is ``after``."""
    asked = settings(folder, backend, False, format)
    # What Spark itself takes there.
    del asked["conf"]["spark.sql.streaming.checkpointFileManagerClass"]
    if after is not None:
        asked |= {"after": after, "ordered": False, "journal": True}
    return asked


def on(store: Any, asked: dict[str, Any], name: str) -> dict[str, Any]:
    conf = {**asked["conf"], **store.conf}
    return {**asked, "conf": conf, "checkpoint": f"{store.url}/{name}"}


@pytest.mark.parametrize(("backend", "format"), KEYED)
def test_keyed_state_survives_kills(
    store: Any, quiet: Callable[..., Any], tmp_path: Path, backend: str, format: int
) -> None:
    write_input(tmp_path / "in", FILES)
    asked = on(store, asked_of(tmp_path, backend, format, None), f"keyed-{backend}-{format}")
    chaos = Chaos(tmp_path / "run", asked, KILLS, seed=format)
    rows = chaos.run()
    assert chaos.done == KILLS
    chaos.compare(rows, quiet(None))


@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("after", ["rows", "windows"])
def test_carried_calls_survive_kills(
    store: Any, quiet: Callable[..., Any], tmp_path: Path, after: str, format: int
) -> None:
    write_input(tmp_path / "in", FILES)
    asked = on(store, asked_of(tmp_path, "heap", format, after), f"carried-{after}-{format}")
    chaos = Chaos(tmp_path / "run", asked, KILLS, seed=10 + format)
    rows = chaos.run()
    assert chaos.done == KILLS
    chaos.compare(rows, quiet(after))


@pytest.mark.parametrize("after", [None, "windows"])
@pytest.mark.parametrize("format", [1, 2])
def test_requests_that_fail_change_nothing(
    quiet: Callable[..., Any], tmp_path: Path, after: str | None, format: int
) -> None:
    """Each is told by S3A at once: half of those that failed were done."""
    write_input(tmp_path / "in", FILES)
    with running(S3, tmp_path / "s3") as store:
        conf = {
            "spark.hadoop.fs.s3a.attempts.maximum": "1",
            "spark.hadoop.fs.s3a.retry.limit": "0",
            "spark.hadoop.fs.s3a.retry.throttle.limit": "0",
        }
        asked = on(store, asked_of(tmp_path, "rocksdb", format, after), "faults")
        asked["conf"] |= conf
        store.fail(2)
        chaos = Chaos(tmp_path / "run", asked, {"driver": 1}, seed=3)
        chaos.compare(chaos.run(), quiet(after))
        assert store.failed() > 20


@pytest.mark.parametrize("after", [None, "windows"])
@pytest.mark.parametrize("format", [1, 2])
def test_a_name_node_that_dies_and_comes_back_changes_nothing(
    quiet: Callable[..., Any], tmp_path: Path, after: str | None, format: int
) -> None:
    write_input(tmp_path / "in", FILES)
    with running(Hdfs, tmp_path / "hdfs") as store:
        asked = on(store, asked_of(tmp_path, "rocksdb", format, after), "faults")
        # Half of the first offsets may be there, which Spark takes for somebody else's checkpoint.
        asked["conf"]["spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"] = "false"
        chaos = Chaos(tmp_path / "run", asked, {"worker": FILES - 3}, seed=3)
        over = threading.Event()
        deaths = []

        def die_now_and_then() -> None:
            for count in (2, 4, 6):
                while chaos.handed_out() < count and not over.is_set():
                    over.wait(0.1)
                if not over.is_set():
                    store.kill()
                    store.start()
                    deaths.append(count)

        killer = threading.Thread(target=die_now_and_then)
        killer.start()
        try:
            rows = chaos.run()
        finally:
            over.set()
            killer.join()
        assert len(deaths) == 3
        chaos.compare(rows, quiet(after))
