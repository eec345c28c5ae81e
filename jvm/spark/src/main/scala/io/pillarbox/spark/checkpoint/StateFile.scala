package io.pillarbox.spark.checkpoint

/**
 * The content of a file of state.
 *
 * @param hasBase true if its header names the file that it goes on from
 */
private[pillarbox] sealed abstract class StateFileKind(
    val suffix: String,
    val isFull: Boolean,
    val hasBase: Boolean
)

private[pillarbox] object StateFileKind {

  /** The changes of one micro-batch. */
  case object Delta extends StateFileKind("delta", isFull = false, hasBase = true)

  /** All state, in the portable format. */
  case object Snapshot extends StateFileKind("snapshot", isFull = true, hasBase = false)

  /** All state, as a list of database files beside it, see [[DatabaseManifest]]. */
  case object Database extends StateFileKind("database", isFull = true, hasBase = false)

  /** The rows that an async operator carries over a micro-batch: results first, then elements in flight. */
  case object Carried extends StateFileKind("carried", isFull = true, hasBase = true)

  val all: Seq[StateFileKind] = Seq(Delta, Snapshot, Database, Carried)

  /** The kinds of full state of a keyed operator. */
  val full: Seq[StateFileKind] = Seq(Snapshot, Database)
}

/**
 * A file of a partition's folder, as in its name: `12_<id>.delta`.
 *
 * @param version the version of the state with this file
 */
private[pillarbox] final case class StateFile(kind: StateFileKind, version: Long, id: Option[String]) {
  def name: String = s"$version${id.fold("")("_" + _)}.${kind.suffix}"
}

private[pillarbox] object StateFile {
  private val Name = """(\d+)_([0-9a-zA-Z-]+)\.(delta|snapshot|database|carried)""".r

  /** Returns None for other files. */
  def parse(name: String): Option[StateFile] = name match {
    case Name(version, id, suffix) =>
      for {
        kind <- StateFileKind.all.find(_.suffix == suffix)
        number <- version.toLongOption
      } yield StateFile(kind, number, Some(id))
    case _ => None
  }
}
