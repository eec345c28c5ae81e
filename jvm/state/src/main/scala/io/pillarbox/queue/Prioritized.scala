package io.pillarbox.queue

/**
 * Something that a queue can order: the smallest `priority` leaves first.
 *
 * The value must not change while the element is in a queue: queues copy it into primitive arrays, so that
 * finding the next element does not touch the elements themselves.
 */
private[pillarbox] trait Prioritized {
  def priority: Long
}
