package io.pillarbox.spark

/**
 * Keyed process functions as Spark tasks: rows of a partition go through a [[keyed.KeyedOperator]] on the task's
 * mailbox thread, with state and timers of their keys, and come out as rows.
 *
 * Here live the operator's SPI and its forms, the driver that feeds an operator in the right order, and what a
 * partition keeps open between micro-batches. How state gets to and from the file system is in `checkpoint`; plan nodes
 * are in `plan`; nothing here talks to the query's driver but by accumulators.
 */
package object keyed
