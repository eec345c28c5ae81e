package io.pillarbox.spark

/**
 * Keyed process functions as Spark tasks: rows of a partition go through a [[keyed.KeyedOperator]] on the
 * task's mailbox thread, with state and timers of their keys, and come out as rows.
 *
 * Here live the operator's SPI and the driver that steps the schedule of `core` with a partition's rows. Its
 * forms are in `jvm`, `scan` and `python`; how state is opened and committed is in `state`; plan nodes are in
 * `plan`. Nothing here talks to the query's driver but by accumulators.
 */
package object keyed
