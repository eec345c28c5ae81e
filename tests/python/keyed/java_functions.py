"""A function of the JVM for tests, compiled by the JDK and put on the session."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from java_jars import compiled
from spark_support import add_jar

COUNTING = "pillarbox.tests.Counting"

# Counts the rows of a key and keeps them; every second count goes to a side output.
SOURCE = """
package pillarbox.tests;

import io.pillarbox.api.*;
import io.pillarbox.spark.SparkSerializers;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

public class Counting extends KeyedProcessFunction<Row, Row, Row> {
  private final String tag;
  private ValueState<Row> count;
  private ListState<Row> rows;

  public Counting(java.util.Map<String, String> options) {
    tag = options.getOrDefault("tag", "even");
  }

  @Override
  public void open(OpenContext context) {
    count = context.getState(StateDescriptor.value("count", SparkSerializers.rows("value bigint")));
    rows = context.getState(
        StateDescriptor.list("rows", SparkSerializers.rows("k string, v bigint")));
  }

  @Override
  public void processElement(Row row, Context<Row> context, Collector<Row> out) {
    Row known = count.value();
    long n = known == null ? 1L : known.getLong(0) + 1;
    count.update(RowFactory.create(n));
    rows.add(RowFactory.create(context.currentKey().get(0), row.<Long>getAs("v")));
    if (n % 2 == 0) context.output(new OutputTag<Row>(tag), RowFactory.create(n));
    else out.collect(RowFactory.create(context.currentKey().get(0), n));
  }
}
"""


def add_counting(spark: SparkSession, folder: Path) -> None:
    """Makes the class ``COUNTING`` known to the executors of the session."""
    jar = compiled(folder, f"counting-{folder.name}.jar", {"Counting": SOURCE})
    add_jar(spark, jar)
