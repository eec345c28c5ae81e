"""The tables of frames, which both sides of the channel follow: kinds, names, order of fields."""

from __future__ import annotations

import importlib
import re
import struct
from pathlib import Path
from typing import NamedTuple

import pytest

import pillarbox

ROOT = Path(__file__).parents[3]
WORKER = Path(pillarbox.__file__).parent / "_worker"
SCALA = [
    path.read_text("utf-8")
    for path in sorted((ROOT / "jvm/spark/src/main/scala/io/pillarbox/spark").rglob("*.scala"))
]
ROW = re.compile(r"^    ([A-Z]) ([A-Z_]+) +(JVM -> Python|Python -> JVM|both ways) +", re.MULTILINE)
WIDTHS = {"u8": "B", "i32": "i", "u32": "i", "i64": "q", "u64": "q", "f64": "d"}
READ = {"get()": "B", "getInt": "i", "getLong": "q", "getDouble": "d"}


class Frame(NamedTuple):
    letter: str
    name: str
    fields: str


def table(text: str) -> list[Frame]:
    """The frames of a docstring, with the fields of fixed width that each begins with."""
    rows = list(ROW.finditer(text))
    ends = [row.start() for row in rows[1:]] + [len(text)]
    return [
        Frame(row[1], row[2], layout(text[row.end() : end].partition("\n\n")[0]))
        for row, end in zip(rows, ends, strict=True)
    ]


def layout(text: str) -> str:
    return "".join(WIDTHS[width] for width in re.findall(rf"\b({'|'.join(WIDTHS)})\b", text))


SOURCES = {path.stem: path.read_text("utf-8") for path in sorted(WORKER.glob("*.py"))}
TABLES = {name: table(text) for name, text in SOURCES.items() if ROW.search(text)}
ALL = {frame for frames in TABLES.values() for frame in frames}
KINDS = {(frame.letter, frame.name) for frame in ALL}


def test_python_has_the_kinds_of_the_tables_and_no_other() -> None:
    written = [
        (names.split(", "), letters)
        for source in SOURCES.values()
        for names, letters in re.findall(r'^([A-Z_]+(?:, [A-Z_]+)+) = b"([A-Z]+)"$', source, re.M)
    ]
    assert {
        pair for names, letters in written for pair in zip(letters, names, strict=True)
    } == KINDS


def test_the_jvm_has_the_kinds_of_the_tables_and_no_other() -> None:
    found = {
        (letter, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removeprefix("Keyed")).upper())
        for text in SCALA
        for name, letter in re.findall(r"val (\w+): Byte = '([A-Z])'", text)
    }
    assert found == KINDS


def test_the_structs_of_python_are_in_the_tables() -> None:
    """Each is what a frame has, or repeats."""
    structs = {
        f"{name}.{own}": re.sub("[<IQ]", lambda sign: {"<": "", "I": "i", "Q": "q"}[sign[0]],
                                value.format)
        for name in ("frames", "keyed_frames")
        for own, value in vars(importlib.import_module(f"pillarbox._worker.{name}")).items()
        if isinstance(value, struct.Struct) and own != "_HEADER"
    }  # fmt: skip
    assert len(structs) > 5
    assert {name for name, own in structs.items() if not any(own in f.fields for f in ALL)} == set()


@pytest.mark.parametrize("name", ["TICKETS", "USAGE", "TOLD", "FAILURES"])
def test_the_jvm_reads_the_fields_in_the_order_of_the_table(name: str) -> None:
    reader = "\n".join(text for text in SCALA if re.search("class (Channel|Outcome)Reader", text))
    (body,) = re.findall(
        rf"def {name.lower()}\(frame: Frame\): Unit = \{{\n(.*?)\n  }}", reader, re.S
    )
    read = re.findall(r"\b(get(?:Int|Long|Double|\(\)))", re.sub("import .*", "", body))
    (frame,) = [one for one in TABLES["frames"] if one.name == name]
    assert "".join(READ[one] for one in read) == frame.fields
