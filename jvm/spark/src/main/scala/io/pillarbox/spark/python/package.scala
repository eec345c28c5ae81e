package io.pillarbox.spark

/**
 * The channel between a Spark task and its Python worker.
 *
 * Lives here: frames and their Arrow bodies, the reader and writer threads, the worker's life. Knows nothing of
 * operators: calls come in as (element id, attempt, row), answers go out to a [[python.ChannelListener]].
 */
package object python
