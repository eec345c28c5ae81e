package org.apache.spark.sql.pillarbox;

import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;

/**
 * Tells whether a thread waits for a streaming query to have processed what there is. In Java, since to Scala the
 * members are protected. Written for Spark 4.2.
 */
final class ProgressWaiters {
  private ProgressWaiters() {}

  /**
   * On the thread of the query, while it decides on its next micro-batch: then it holds the lock. One that was woken
   * by the last micro-batch and has not yet looked again is among those queued for the lock.
   */
  static boolean hasAny(StreamExecution query) {
    var lock = query.awaitProgressLock();
    return lock.isHeldByCurrentThread()
        && (lock.hasQueuedThreads() || lock.hasWaiters(query.awaitProgressLockCondition()));
  }
}
