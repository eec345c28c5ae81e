package io.pillarbox.queue

/** Tells the key group of an element. Gives the same answer for equal elements, at any time. */
private[pillarbox] trait KeyGroupExtractor[-T] {
  def keyGroupOf(element: T): Int
}
