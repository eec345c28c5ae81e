package io.pillarbox.spark.checkpoint

/**
 * The partitions of a keyed operator's state.
 *
 * @param earlier the partitions that there were before, if their number has changed
 */
private[pillarbox] final case class StateLayout(
    partitions: Int,
    earlier: Option[StateLayout.Earlier] = None
) {

  /** The version that the partitions began with; files up to it are those of other partitions. */
  def since: Long = earlier.fold(0L)(_.version)

  /** True if state of `version` has to be read from the partitions that there were before. */
  def beginsWith(version: Long): Boolean = earlier.exists(_.version == version)
}

private[pillarbox] object StateLayout {

  /**
   * The state that partitions begin with.
   *
   * @param ids the ids in the names of its files, by its own partitions; None for one that is empty
   */
  final case class Earlier(version: Long, layout: StateLayout, ids: IndexedSeq[Option[String]])
}
