"""Input for tests of real-time mode."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession


class Memory:
    """Spark's source for tests of real-time mode; one partition of strings."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        sql = jvm.org.apache.spark.sql
        clocks = getattr(sql.execution.datasources.v2, "LowLatencyClock$")
        clock = getattr(clocks, "MODULE$").getClock()
        self._lists = jvm.java.util.List
        self._scala = jvm.scala.jdk.javaapi.CollectionConverters
        self._stream = sql.execution.streaming.sources.LowLatencyMemoryStream(
            0, spark._jsparkSession, 1, clock, sql.Encoders.STRING()
        )
        self.rows = DataFrame(self._stream.toDF(), spark)

    def add(self, *values: object) -> None:
        self._stream.addData(self._scala.asScala(self._lists.of(*map(str, values))))
