"""A small job for ``spark-submit --jars``: calls, and a keyed stream with a restart.

``submit_app.py FOLDER`` prints what it found as JSON, behind "FOUND ".
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import pillarbox as pb

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from stored_queries import SETTINGS, Case, outcome, run_step


async def twice(row: Any) -> int:
    return int(row.id) * 2


def main() -> None:
    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    for key, value in {"spark.sql.session.timeZone": "UTC", **SETTINGS}.items():
        builder = builder.config(key, value)
    spark = pb.configure(builder).getOrCreate()
    called = spark.range(20).transform(pb.async_io, twice, returns="twice long", engine="jvm")
    calls = {row.id: row.twice for row in called.collect()}
    folder, case = Path(sys.argv[1]), Case("keyed", "rocksdb", "2")
    for step in range(2):
        run_step(spark, folder, case, step, step == 1)
    found = {
        "spark": spark.version,
        "package": pb.__file__,
        "jars": spark.sparkContext._jsc.sc().listJars().mkString(","),
        "calls": sum(calls.values()),
        "keyed": outcome(spark, folder, case),
    }
    print("FOUND " + json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
