/**
 * What a function in Java or Scala is written against: {@link io.pillarbox.api.AsyncFunction} for calls,
 * {@link io.pillarbox.api.KeyedProcessFunction} for keyed rows with state and timers. Nothing else of
 * Pillarbox is meant to be used from outside, but for {@code io.pillarbox.spark.SparkSerializers}, which
 * needs Spark.
 *
 * <p>Times are in milliseconds since 1970. Unless something else is said, every method is called on the
 * mailbox thread of a task and must not block it, and null is no argument.
 */
package io.pillarbox.api;
