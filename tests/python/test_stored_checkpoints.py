"""Stored checkpoints: a query goes on from each, with either backend.

`tests/golden/checkpoints` has a folder for each Pillarbox that wrote a format of its own, with a
README.
"""

from __future__ import annotations

import json
import re
import struct
import tarfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import pillarbox as pb
from keyed.streams import settings
from spark_support import eventually
from stored_queries import (
    FORMAT,
    SETTINGS,
    STATES,
    STEPS,
    Case,
    add_files,
    outcome,
    run_step,
)

STORED = Path(__file__).parents[1] / "golden" / "checkpoints"
ARCHIVES = sorted(STORED.glob("*/*.tar.xz"))
# Format numbers in files, behind what they begin with: the start, where the number is, its type.
FORMATS = {
    "a partition's file": (struct.pack(">q", 0x50424F5853544154), ">H"),
    "state": (b"PILLARBX", ">i"),
    "database": (b"PBX2", ">i"),
    "journal": (b"PBXCALLS", ">i"),
}
NOTE = "operator.json"
Undisturbed = Callable[[str], Path]


def case_of(archive: Path) -> Case:
    what, *rest = archive.name.removesuffix(".tar.xz").split("-")
    return Case(what, *rest) if len(rest) != 1 else Case(what, format=rest[0])


def formats(files: Iterable[tuple[str, bytes]]) -> set[tuple[str, int]]:
    """The format numbers in files, by what has them."""
    found = set()
    for name, content in files:
        if Path(name).name == NOTE:
            found.add((NOTE, json.loads(content)["version"]))
        for what, (start, kind) in FORMATS.items():
            at = content.find(start)
            while at >= 0:
                found.add((what, struct.unpack_from(kind, content, at + len(start))[0]))
                at = content.find(start, at + 1)
    return found


def formats_in(archive: Path) -> set[tuple[str, int]]:
    with tarfile.open(archive) as tar:
        members = [one for one in tar.getmembers() if one.isfile()]
        return formats((one.name, tar.extractfile(one).read()) for one in members)  # type: ignore[union-attr]


def openings() -> list[tuple[Path, Case]]:
    """Stored checkpoints, each with both backends."""
    return [
        (archive, case_of(archive)._replace(backend=backend))
        for archive in ARCHIVES
        for backend in (("rocksdb", "heap") if case_of(archive).backend else ("",))
    ]


def named(part: Path | Case) -> str:
    if isinstance(part, Case):
        return f"by-{part.backend}" if part.backend else "again"
    return f"{part.parent.name}/{part.name.removesuffix('.tar.xz')}"


def unpacked(archive: Path, folder: Path) -> Path:
    """As it was when the query stopped, in another place."""
    folder.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    for log in (folder / "checkpoint").glob("sources/*/*"):
        log.write_bytes(log.read_bytes().replace(b"{folder}", str(folder).encode()))
    for partition in (folder / "checkpoint").glob("state/*/[0-9]*"):
        keep_newest(partition)
    for step in range(STEPS - 1):
        add_files(folder / "in", step)
    return folder


def keep_newest(partition: Path) -> None:
    """State has to be read from its newest snapshot, as after a clean-up, and later changes."""
    files = [(int(re.split("[_.]", one.name)[0]), one) for one in partition.glob("*.*")]
    full = max((n for n, one in files if one.suffix in (".snapshot", ".database")), default=0)
    for number, file in files:
        if number < full:
            file.unlink()


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with settings(spark, **SETTINGS, **{"spark.sql.session.timeZone": "UTC", FORMAT: "1"}):
        yield spark


@pytest.fixture(scope="module")
def undisturbed(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The folder of a query that ran all its steps here."""

    @cache
    def ran(what: str) -> Path:
        folder = tmp_path_factory.mktemp(what)
        case = Case(what) if what == "journal" else Case(what, "rocksdb", "1")
        for step in range(STEPS):
            run_step(session, folder, case, step, step == STEPS - 1)
        return folder

    return ran


def test_there_are_stored_checkpoints() -> None:
    assert {case_of(archive).what for archive in ARCHIVES} == {"keyed", "scan", "carry", "journal"}


@pytest.mark.parametrize(("archive", "case"), openings(), ids=named)
def test_a_query_goes_on_from_a_stored_checkpoint(
    archive: Path, case: Case, session: SparkSession, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    folder = unpacked(archive, tmp_path / "query")
    run_step(session, folder, case, STEPS - 1, True)
    assert outcome(session, folder, case) == outcome(session, undisturbed(case.what), case)


@pytest.mark.parametrize(
    "archive", [one for one in ARCHIVES if STATES[case_of(one).what]], ids=named
)
def test_state_is_read_from_a_stored_checkpoint(
    archive: Path, session: SparkSession, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    case = case_of(archive)
    stored = str(unpacked(archive, tmp_path / "query") / "checkpoint")
    batch = max(int(file.name) for file in Path(stored, "commits").glob("[0-9]*"))
    for name in STATES[case.what]:
        found = pb.read_state(session, stored, 0, name).drop("partition_id").collect()
        there = str(undisturbed(case.what) / "checkpoint")
        wanted = pb.read_state(session, there, 0, name, batch_id=batch).drop("partition_id")
        assert sorted(map(repr, found)) == sorted(map(repr, wanted.collect())) != []


@pytest.mark.parametrize("what", ["keyed", "carry"])
def test_a_checkpoint_of_before_the_first_release_is_refused_before_anything_is_written(
    what: str, session: SparkSession, tmp_path: Path
) -> None:
    archive = next(one for one in ARCHIVES if case_of(one).what == what)
    case, folder = case_of(archive), unpacked(archive, tmp_path / "query")
    (note,) = folder.rglob(NOTE)
    note.write_text(json.dumps({**json.loads(note.read_text()), "version": 2}))
    before = state_files(folder)
    words = "CHECKPOINT_FORMAT"
    with pytest.raises(StreamingQueryException, match=words):
        run_step(session, folder, case, STEPS - 1, True)
    assert state_files(folder) == before
    if STATES[case.what]:
        with pytest.raises(Exception, match=words):
            pb.read_state(session, str(folder / "checkpoint"), 0, STATES[case.what][0]).collect()


def state_files(folder: Path) -> dict[str, bytes]:
    """But for what the driver notes of a run before its tasks begin."""
    files = (one for one in (folder / "checkpoint" / "state").rglob("*") if one.is_file())
    return {str(one): one.read_bytes() for one in files if one.parent.name != "_pillarbox"}


def test_each_format_that_is_written_now_has_a_stored_checkpoint(undisturbed: Undisturbed) -> None:
    def written() -> set[tuple[str, int]]:
        files = (
            file
            for what in ("keyed", "carry", "journal")
            for file in (undisturbed(what) / "checkpoint").rglob("*")
            if file.is_file()
        )
        return formats((file.name, file.read_bytes()) for file in files)

    # Snapshots of state are written beside the query.
    eventually(
        lambda: {what for what, _ in written()} == {*FORMATS, NOTE},
        "a file of each kind",
    )
    stored = set().union(*(formats_in(archive) for archive in ARCHIVES))
    lacking = written() - stored
    assert not lacking, f"store checkpoints of {lacking}: python tools/store_checkpoints.py NAME"
