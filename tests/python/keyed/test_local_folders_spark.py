"""What state keeps on local disks goes with it, however a query ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pillarbox as pb
from spark_apps import run_app

# The application below is sent as text; this name is its.
build: Any = None


def stopped_in_the_middle(folder, stops):  # type: ignore[no-untyped-def]
    import os
    import time

    from pyspark.sql import functions as F

    class Slow(pb.KeyedProcessFunction):
        def open(self, ctx):
            self.count = ctx.value_state("count", "long")

        def process(self, row, ctx):
            self.count.update((self.count.value() or 0) + 1)
            if row.id == 50:
                open(f"{folder}/in_the_middle", "w").close()
                time.sleep(60)
            yield row.id, self.count.value()

    spark = pb.configure(
        build(
            {
                "spark.sql.shuffle.partitions": "2",
                "spark.pillarbox.state.maintenanceInterval": "1s",
                "spark.local.dir": f"{folder}/local",
            }
        ).master("local[2]")
    ).getOrCreate()
    spark.range(0, 100, 1, 1).write.parquet(f"{folder}/in")

    def folders():
        return [
            name
            for _, names, _ in os.walk(f"{folder}/local")
            for name in names
            if name.startswith("pillarbox-")
        ]

    def until(condition):
        deadline = time.monotonic() + 60
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.05)

    seen = 0
    for round in range(stops):
        rows = spark.readStream.schema("id long").parquet(f"{folder}/in")
        keyed = pb.process_keyed(
            rows.withColumn("k", F.col("id") % 7),
            Slow(),
            by="k",
            returns="id long, n long",
            backend="rocksdb",
        )
        query = (
            keyed.writeStream.format("noop")
            .option("checkpointLocation", f"{folder}/checkpoint-{round}")
            .start()
        )
        until(lambda: os.path.exists(f"{folder}/in_the_middle"))
        seen = max(seen, len(folders()))
        query.stop()
        os.remove(f"{folder}/in_the_middle")
    until(lambda: not folders())
    return [seen, folders()]


@pytest.mark.parametrize(
    "stops",
    [2, pytest.param(6, marks=pytest.mark.whole), pytest.param(60, marks=pytest.mark.soak)],
)
def test_queries_that_are_stopped_in_the_middle_of_a_batch_leave_no_folders(
    tmp_path: Path, stops: int
) -> None:
    seen, left = run_app(stopped_in_the_middle, str(tmp_path), stops)
    assert seen > 0
    assert left == []
