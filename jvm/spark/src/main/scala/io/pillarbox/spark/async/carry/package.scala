package io.pillarbox.spark.async

/**
 * Async I/O that outlives a micro-batch. A slot of the operator has a mailbox thread of its own, on which
 * calls go on between micro-batches; the Spark task feeds it, and writes what it carries as a version of
 * state.
 *
 * A micro-batch emits what the committed state holds, and nothing that came later: so it gives the same rows
 * however often it is run.
 */
package object carry
