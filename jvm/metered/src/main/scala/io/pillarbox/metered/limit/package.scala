package io.pillarbox.metered

/**
 * Limits on calls over many operators, and the queues of those that wait for a permit. A limiter knows nothing
 * of calls: it is asked for a permit by any thread, and answers at once or later.
 */
package object limit
