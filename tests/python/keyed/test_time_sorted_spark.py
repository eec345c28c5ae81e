"""``time_sorted`` on Spark: a data set cut into micro-batches in many ways gives one answer."""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from keyed import test_time_sorted
from keyed.test_time_sorted import ROWS, START_MS, Turnaround, as_row, oracle
from spark_support import run_stream

cloudpickle.register_pickle_by_value(test_time_sorted)
cloudpickle.register_pickle_by_value(sys.modules[__name__])

INPUT = "k string, ts timestamp, what string"
RETURNS = "k string, t bigint, what string, since bigint, seen int"
END_MS = START_MS + 10_000


def turned(rows: DataFrame, backend: str = "heap") -> DataFrame:
    return rows.transform(
        pb.process_keyed, Turnaround(), by="k", returns=RETURNS, timestamp="ts",
        time_sorted=True, backend=backend,
    )  # fmt: skip


def streamed(
    spark: SparkSession, batches: list[list[Any]], delay_ms: int, backend: str
) -> list[Any]:
    """What comes out when every batch is a micro-batch; the watermark passes all in the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        end = [("end", END_MS * 1000 + 10**6, "out")]
        for number, batch in enumerate([*batches, end]):
            lines = [
                json.dumps({"k": k, "ts": ts.isoformat(), "what": what})
                for k, ts, what in map(as_row, batch)
            ]
            path = folder / "in" / f"{number}.json"
            path.write_text("\n".join(lines) + "\n")
            os.utime(path, (1_000_000 + number, 1_000_000 + number))
        rows = spark.readStream.schema(INPUT).option("maxFilesPerTrigger", 1)
        late = rows.json(f"{folder}/in").withWatermark("ts", f"{delay_ms + 1} milliseconds")
        query = run_stream(turned(late, backend), folder, "json")
        operators = [progress["stateOperators"] for progress in query.recentProgress]
        assert sum(one["numRowsDroppedByWatermark"] for all in operators for one in all) == 0
        return list(spark.read.schema(RETURNS).json(f"{folder}/out").collect())


@settings(
    max_examples=int(os.environ.get("PILLARBOX_CUTS", "4")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    ROWS,
    st.lists(st.integers(1, 13), max_size=3),
    st.randoms(use_true_random=False),
    st.integers(0, 20),
    st.sampled_from(["heap", "rocksdb"]),
)
def test_any_cutting_and_a_batch_give_the_rows_of_the_oracle(
    quick: SparkSession, rows: list[Any], cuts: list[int], random: Any, delay: int, backend: str
) -> None:
    """Rows are shuffled as far as the watermark's delay allows, and cut anywhere."""
    rows = sorted(rows, key=lambda row: row[1] + random.randint(0, delay * 1000))
    bounds = sorted({0, *(cut for cut in cuts if cut < len(rows)), len(rows)})
    batches = [rows[start:end] for start, end in itertools.pairwise(bounds)]
    expected = oracle(rows, END_MS)
    found = Counter(tuple(row) for row in streamed(quick, batches, delay, backend))
    assert found == expected
    batch = quick.createDataFrame([as_row(row) for row in rows], INPUT)
    assert Counter(tuple(row) for row in turned(batch).collect()) == expected
