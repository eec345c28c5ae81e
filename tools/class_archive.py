"""Archives the classes of Spark that most tests load: class-data sharing of the JDK.

``python tools/class_archive.py`` is for the PySpark of the interpreter that runs it. It does
nothing where its environment has the archive. JVMs that are given it take half as long to start.
One that was made by another JDK, or of other jars, is passed over by the JVM.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/python"))
from java_options import OPTIONS, archive_of


def main(file: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JDK_JAVA_OPTIONS"] = OPTIONS
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        fresh = Path(folder, "fresh.jsa")
        # Not by the environment: the launcher, a JVM too, would write an archive of its own there.
        options = f"-XX:ArchiveClassesAtExit={fresh} -Xlog:disable"
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.driver.extraJavaOptions", options)
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.ui.enabled", "false")
            .getOrCreate()
        )
        load(spark, folder)
        process = spark.sparkContext._gateway.proc
        spark.stop()
        spark.sparkContext._gateway.shutdown()
        process.stdin.close()
        process.wait(120)
        shutil.move(fresh, file)


def load(spark: SparkSession, folder: str) -> None:
    """A bit of all that tests do."""
    rows = spark.range(20).selectExpr("id % 3 k", "id v", "timestamp_seconds(id) ts")
    rows.write.parquet(f"{folder}/in")
    rows.groupBy("k").count().mapInArrow(
        lambda batches: batches, "k bigint, count bigint"
    ).collect()
    spark.createDataFrame([("a", 1)], "k string, v int").toPandas()
    stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/in")
    counts = stream.withWatermark("ts", "1 second").groupBy("k", "ts").count()
    query = (
        counts.writeStream.format("memory")
        .queryName("counts")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.table("counts").collect()


if __name__ == "__main__":
    archive = archive_of(Path(sys.prefix))
    if not archive.exists():
        main(archive)
