"""The public names of Python are those that are written down; Java's are guarded by MiMa."""

import sys
from pathlib import Path

import pillarbox as pb

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import python_api  # noqa: E402


def test_the_public_signatures_and_fields_are_those_that_are_written_down():
    found, expected = python_api.text(), python_api.FILE.read_text("utf-8")
    assert found == expected, "write them anew by `python tools/python_api.py --update`"


def test_what_is_written_down_tells_of_a_change_in_a_signature_or_a_field():
    lines = python_api.FILE.read_text("utf-8").splitlines()
    (limit,) = [line for line in lines if line.startswith("class pb.Limit(")]
    assert "scope: Scope | None = None" in limit
    (async_io,) = [line for line in lines if line.startswith("pb.async_io(")]
    assert async_io.startswith("pb.async_io(df: DataFrame, function: Function, *, returns: ")
    named = {line.split("(")[0].split(" ")[0] for line in lines}
    assert {f"pb.{name}" for name in pb.__all__ if name[0].islower()} <= named


def test_what_is_reserved_is_free():
    reserved = (
        "async_map", "typing",
        "sql",
    )  # fmt: skip
    assert [name for name in reserved if name in dir(pb)] == []
