"""Some steps of queries, on one line of Spark: ``python app.py '<JSON>'``.

Settings: ``folder`` (a folder in it for each query, with its input, checkpoint and output),
``steps``, ``last`` (the number of the last step of all), ``cases`` and ``jars``. A query that has
made its last step leaves its outcome in the file ``outcome.json``, one that failed the reason in
``failure``, and is left alone then.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

from pyspark.sql import SparkSession

import pillarbox as pb

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from stored_queries import SETTINGS, Case, outcome, run_step


def session(jars: str) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    if jars:
        builder = builder.config("spark.jars", jars)
    for key, value in {"spark.sql.session.timeZone": "UTC", **SETTINGS}.items():
        builder = builder.config(key, value)
    spark = pb.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main() -> None:
    settings = json.loads(sys.argv[1])
    spark = session(settings["jars"])
    for step in settings["steps"]:
        for case in (Case(*parts) for parts in settings["cases"]):
            folder = Path(settings["folder"]) / str(case)
            folder.mkdir(parents=True, exist_ok=True)
            if (folder / "failure").exists():
                continue
            try:
                is_last = step == settings["last"]
                run_step(spark, folder, case, step, is_last)
                if is_last:
                    found = outcome(spark, folder, case)
                    (folder / "outcome.json").write_text(json.dumps(found))
            except Exception:
                where = f"step {step} on Spark {spark.version}"
                (folder / "failure").write_text(f"{where}:\n{traceback.format_exc()}")
    spark.stop()


if __name__ == "__main__":
    main()
