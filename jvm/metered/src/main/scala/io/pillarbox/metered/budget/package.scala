package io.pillarbox.metered

/**
 * Budgets: what all calls together may spend. The driver's allocator grants parts of it, processes spend them
 * and tell. No Spark here, and no thread that waits.
 */
package object budget
