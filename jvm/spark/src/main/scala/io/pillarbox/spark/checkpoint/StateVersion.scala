package io.pillarbox.spark.checkpoint

/**
 * A version of state: the number of micro-batches that led to it, and the id of the attempt that wrote the
 * last of them.
 *
 * @param id None where Spark does not tell (checkpoint format 1), and for the empty state
 */
private[pillarbox] final case class StateVersion(number: Long, id: Option[String]) {

  /** True if state of version `that` is the one that this version asks for. */
  def isMetBy(that: StateVersion): Boolean = number == that.number && id.forall(that.id.contains)

  override def toString: String = number.toString + id.fold("")(id => s" ($id)")
}

private[pillarbox] object StateVersion {

  /** The version before the first micro-batch. */
  val Empty: StateVersion = StateVersion(0, None)
}
