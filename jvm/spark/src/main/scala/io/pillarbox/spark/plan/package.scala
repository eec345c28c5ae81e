package io.pillarbox.spark

/**
 * The operators as nodes of Spark's plans, logical and physical, and the planning of the one as the other.
 *
 * Here live the classes that the analyzer and planner see. A physical node makes an RDD whose tasks are of
 * `async` or `keyed`.
 */
package object plan
