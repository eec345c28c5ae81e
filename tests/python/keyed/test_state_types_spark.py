"""State of every type, on Spark: what is written is what a later row of the key reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odd_values import FITTING
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from keyed.streams import Stream
from spark_support import by_value

by_value(__name__)

TYPES = {ddl: value for ddl, value in FITTING.items() if value is not None}


class Keeps(pb.KeyedProcessFunction):
    """The first row of a key writes the value of each type, the others tell which differ."""

    def open(self, ctx: Any) -> None:
        at = list(enumerate(TYPES))
        self.values = [ctx.value_state(f"value {i}", ddl) for i, ddl in at]
        self.lists = [ctx.list_state(f"list {i}", ddl) for i, ddl in at]
        self.maps = [ctx.map_state(f"map {i}", "string", ddl) for i, ddl in at]

    def process(self, row: Any, ctx: Any) -> Any:
        empty = written = 0
        wrong = []
        for ddl, value, values, entries in zip(
            TYPES, self.values, self.lists, self.maps, strict=True
        ):
            found = [value.value(), list(values.get()), dict(entries.items())]
            if found == [None, [], {}]:
                empty += 1
                value.update(TYPES[ddl])
                values.add_all([TYPES[ddl], TYPES[ddl]])
                entries.put("k", TYPES[ddl])
            elif found == [TYPES[ddl], [TYPES[ddl]] * 2, {"k": TYPES[ddl]}]:
                written += 1
            else:
                wrong.append(f"{ddl}: {found}")
        yield row.k, empty, written, wrong


@pytest.mark.parametrize("backend", ["rocksdb", "heap"])
def test_what_is_written_is_read(spark: SparkSession, tmp_path: Path, backend: str) -> None:
    def build(df: DataFrame) -> DataFrame:
        returns = "k string, empty int, written int, wrong array<string>"
        return pb.process_keyed(df, Keeps(), by="k", returns=returns, backend=backend)

    stream = Stream(spark, tmp_path, "k string", build)
    stream.add(("a",), ("b",), ("a",))
    new, kept = (len(TYPES), 0, []), (0, len(TYPES), [])
    first = [("a", *kept), ("a", *new), ("b", *new)]
    assert sorted(stream.run()) == first
    stream.add(("b",), ("c",))
    assert sorted(stream.run()) == sorted([*first, ("b", *kept), ("c", *new)])
