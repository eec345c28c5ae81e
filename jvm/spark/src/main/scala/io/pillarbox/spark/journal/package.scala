package io.pillarbox.spark

/**
 * Reads what journals hold as DataFrames, and deletes answers from them, whether jobs write to them or not.
 *
 * The driver lists the segments and looks up whose answers they hold; tasks read them through
 * `metered.journal` and turn them into rows. What answers look like is known to `async`.
 */
package object journal
