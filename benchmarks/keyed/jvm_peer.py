"""Spark's transformWithState on the JVM, compiled from java/ on first use with the JDK's javac."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).with_name("java")
JAR = ROOT / ".build" / "bench-keyed.jar"


def jar() -> Path:
    """The jar with the peers; made again when a source is newer."""
    sources = sorted(SOURCES.glob("*.java"))
    if JAR.exists() and JAR.stat().st_mtime > max(s.stat().st_mtime for s in sources):
        return JAR
    classes = ROOT / ".build" / "bench-keyed-classes"
    classes.mkdir(parents=True, exist_ok=True)
    libraries = Path(pyspark.__file__).parent / "jars" / "*"
    javac = ["javac", "-nowarn", "-cp", str(libraries), "-d", str(classes)]
    subprocess.run([*javac, *map(str, sources)], check=True)
    subprocess.run(["jar", "cf", str(JAR), "-C", str(classes), "."], check=True)
    return JAR


def running_count(every_row: bool, ttl_ms: int = 0) -> Callable[[DataFrame], DataFrame]:
    """transformWithState in Java; state once a row, or once for a key's rows of a batch."""

    def run(df: DataFrame) -> DataFrame:
        spark = df.sparkSession
        rows = spark._jvm.peers.RunningCount.apply(df._jdf, every_row, ttl_ms)
        return DataFrame(rows, spark)

    return run


def last_payload(df: DataFrame) -> DataFrame:
    """transformWithState in Java that keeps the last payload of each key."""
    spark = df.sparkSession
    return DataFrame(spark._jvm.peers.LastPayload.apply(df._jdf), spark)
