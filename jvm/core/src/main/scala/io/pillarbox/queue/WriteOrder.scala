package io.pillarbox.queue

/**
 * Sorts writes; reused from one key group to the next. Not thread-safe. The JDK sorts plain numbers, or objects by a
 * comparator: here that would be an object for each timer that is written.
 */
private[queue] final class WriteOrder {
  private var order = new Array[Int](256)
  private var words = new Array[Long](256)
  private var otherOrder = new Array[Int](256)
  private var otherWords = new Array[Long](256)

  /** Which write is at place `i`. */
  def apply(i: Int): Int = order(i)

  /**
   * Puts the writes 0 until `count` in order: by their leads, and where those are equal as `compare` says. Equal ones stay as
   * they came. A merge sort from the bottom up.
   */
  def sort(count: Int, leads: Array[Long], compare: IntComparison): Unit = {
    if (order.length < count) enlarge(count)
    System.arraycopy(leads, 0, words, 0, count)
    var i = 0
    while (i < count) {
      order(i) = i
      i += 1
    }
    var width = 1
    while (width < count) {
      var from = 0
      while (from < count) {
        merge(from, math.min(from + width, count), math.min(from + 2 * width, count), compare)
        from += 2 * width
      }
      swap()
      width *= 2
    }
  }

  private def merge(from: Int, middle: Int, until: Int, compare: IntComparison): Unit = {
    var (left, right, to) = (from, middle, from)
    while (to < until) {
      val takesLeft = right == until || (left < middle && isInOrder(left, right, compare))
      val at = if (takesLeft) left else right
      if (takesLeft) left += 1 else right += 1
      otherOrder(to) = order(at)
      otherWords(to) = words(at)
      to += 1
    }
  }

  private def isInOrder(left: Int, right: Int, compare: IntComparison): Boolean =
    words(left) < words(right) ||
      (words(left) == words(right) && compare.compare(order(left), order(right)) <= 0)

  private def swap(): Unit = {
    val (sorted, sortedWords) = (otherOrder, otherWords)
    otherOrder = order
    otherWords = words
    order = sorted
    words = sortedWords
  }

  private def enlarge(count: Int): Unit = {
    val length = math.max(count, 2 * order.length)
    order = new Array[Int](length)
    words = new Array[Long](length)
    otherOrder = new Array[Int](length)
    otherWords = new Array[Long](length)
  }
}

/** Compares two things by their numbers, as a `Comparator` does. */
private[queue] trait IntComparison {
  def compare(one: Int, other: Int): Int
}
