package io.pillarbox.spark

/**
 * Keyed process functions as Spark tasks: rows of a partition go through a [[keyed.KeyedOperator]] on the
 * task's mailbox thread, with state and timers of their keys, and come out as rows.
 *
 * Here live the operator's SPI and the driver that steps the schedule of `core` with a partition's rows. The
 * forms of functions are in `jvm`, `scan` and `python`; `state` opens and commits state; plan nodes are in
 * `plan`. Code here talks to the query's driver only by accumulators.
 */
package object keyed
