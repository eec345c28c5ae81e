/**
 * The API of functions in Java and Scala: {@link io.pillarbox.api.AsyncFunction} for calls, {@link
 * io.pillarbox.api.KeyedProcessFunction} for keyed rows with state and timers. It is the public part of
 * Pillarbox, together with {@code io.pillarbox.spark.SparkSerializers}, which needs Spark.
 *
 * <p>Times are in milliseconds since 1970. Unless something else is said, every method is called on the
 * mailbox thread of a task and must not block it, and null is no argument.
 */
package io.pillarbox.api;
