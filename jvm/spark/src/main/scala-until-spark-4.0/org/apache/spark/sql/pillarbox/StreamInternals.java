package org.apache.spark.sql.pillarbox;

import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.MicroBatchExecution;
import org.apache.spark.sql.execution.streaming.StreamExecution;
import org.apache.spark.sql.execution.streaming.WatermarkTracker;

/** Members of Spark's running queries that are protected from Scala, but not from Java. */
final class StreamInternals {
  private StreamInternals() {}

  /** The session that the query's plans belong to. */
  static SparkSession session(StreamExecution query) {
    return query.sparkSessionForStream();
  }

  /** The lock of the callers who wait for the query to have processed all input. */
  static ReentrantLock lock(StreamExecution query) {
    return query.awaitProgressLock();
  }

  static Condition condition(StreamExecution query) {
    return query.awaitProgressLockCondition();
  }

  static WatermarkTracker watermarkTracker(MicroBatchExecution query) {
    return query.watermarkTracker();
  }

  static void setWatermarkTracker(MicroBatchExecution query, WatermarkTracker tracker) {
    query.watermarkTracker_$eq(tracker);
  }
}
