package io.pillarbox.spark

/**
 * The operators as nodes of Spark's plans, logical and physical, and how ones become the others.
 *
 * Lives here: what the analyzer and planner see. A physical node makes an RDD whose tasks are of `async` or
 * `keyed`.
 */
package object plan
