package io.pillarbox.spark.checkpoint

import java.util.UUID

/**
 * The attempt of a task that wrote a file of state, where Spark has no ids for that (checkpoint format 1).
 *
 * Of two attempts the one of the later run of the query is the newer, then the one that was started later: an
 * attempt that nobody waits for any more was started before the one that took its place.
 *
 * @param run number of the run of the query, see [[OperatorRegistry]]
 * @param task Spark's number of the task attempt, which it counts up
 */
private[pillarbox] final case class Attempt(run: Long, task: Long) {

  /** Makes a unique id for the name and the header of a file. */
  def newId(): String = s"r${run}t$task-${UUID.randomUUID()}"
}

private[pillarbox] object Attempt {
  private val Id = """r(\d+)t(\d+)-.+""".r

  /** Returns None for ids of checkpoint format 2. */
  def of(id: String): Option[Attempt] = id match {
    case Id(run, task) =>
      for {
        run <- run.toLongOption
        task <- task.toLongOption
      } yield Attempt(run, task)
    case _ => None
  }

  /** The run that wrote a file with this id in its name; -1 if unknown. */
  def runOf(id: Option[String]): Long = id.flatMap(of).fold(-1L)(_.run)

  /** Orders the ids in names of files. */
  val oldestFirst: Ordering[Option[String]] = Ordering.by { id: Option[String] =>
    (runOf(id), id.flatMap(of).fold(-1L)(_.task), id.getOrElse(""))
  }
}

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
