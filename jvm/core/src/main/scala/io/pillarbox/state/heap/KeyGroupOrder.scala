package io.pillarbox.state.heap

/**
 * Visits positions in the order of their key groups, by a counting sort: two passes, no comparison.
 *
 * @param positions how many there are
 */
private[heap] final class KeyGroupOrder(maxKeyGroups: Int, positions: Int) {

  /** @param keyGroupOf the key group of a position, -1 to leave it out */
  def forEach(keyGroupOf: ToKeyGroup, visit: AtKeyGroup): Unit = {
    val groups = new Array[Short](positions)
    val starts = new Array[Int](maxKeyGroups + 1)
    var i = 0
    while (i < positions) {
      val group = keyGroupOf(i)
      groups(i) = group.toShort
      if (group >= 0) starts(group + 1) += 1
      i += 1
    }
    val sorted = sort(groups, starts)
    i = 0
    while (i < sorted.length) {
      visit(sorted(i), groups(sorted(i)).toInt)
      i += 1
    }
  }

  private[this] def sort(groups: Array[Short], starts: Array[Int]): Array[Int] = {
    var group = 1
    while (group <= maxKeyGroups) {
      starts(group) += starts(group - 1)
      group += 1
    }
    place(groups, starts)
  }

  private[this] def place(groups: Array[Short], starts: Array[Int]): Array[Int] = {
    val sorted = new Array[Int](starts(maxKeyGroups))
    var i = 0
    while (i < positions) {
      val group = groups(i)
      if (group >= 0) {
        sorted(starts(group.toInt)) = i
        starts(group.toInt) += 1
      }
      i += 1
    }
    sorted
  }
}

private[heap] trait ToKeyGroup {
  def apply(position: Int): Int
}

private[heap] trait AtKeyGroup {
  def apply(position: Int, keyGroup: Int): Unit
}
