"""A run of the query of ``test_checkpoints_spark`` that never ends: its function waits at a key.

``python partitions_app.py FOLDER '<settings as JSON>'``. It leaves a file ``waits`` then.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import pillarbox as pb
from keyed.test_checkpoints_spark import Counts, Query, counted


class Waits(Counts):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, row: Any, ctx: Any) -> Iterator[Any]:
        if row.k == "h":
            (Path(self.folder) / "waits").touch()
            time.sleep(600)
        yield from super().process(row, ctx)


def main() -> None:
    folder, settings = sys.argv[1], json.loads(sys.argv[2])
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = pb.configure(builder).getOrCreate()
    Query(spark, Path(folder)).run(lambda rows: counted(rows, Waits(folder)))


if __name__ == "__main__":
    main()
