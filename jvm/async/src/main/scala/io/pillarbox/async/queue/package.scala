package io.pillarbox.async

/**
 * The queues of elements in flight, which decide what may leave, and when. Mailbox thread only. They know
 * nothing of calls, attempts or deadlines.
 */
package object queue
