package io.pillarbox.spark.checkpoint

/**
 * What a file of state holds.
 *
 * @param hasBase
 *   whether its header tells what it goes on from
 */
private[pillarbox] sealed abstract class StateFileKind(
    val suffix: String,
    val isFull: Boolean,
    val hasBase: Boolean
)

private[pillarbox] object StateFileKind {

  /** What one micro-batch changed. */
  case object Delta extends StateFileKind("delta", isFull = false, hasBase = true)

  /** Everything, in the portable format. */
  case object Snapshot extends StateFileKind("snapshot", isFull = true, hasBase = false)

  /** Everything, as a list of database files that are kept beside it, see [[DatabaseManifest]]. */
  case object Database extends StateFileKind("database", isFull = true, hasBase = false)

  /** What an async operator carries over a micro-batch: results first, then elements in flight. */
  case object Carried extends StateFileKind("carried", isFull = true, hasBase = true)

  val all: Seq[StateFileKind] = Seq(Delta, Snapshot, Database, Carried)

  /** Those that a keyed operator's state may be loaded from. */
  val full: Seq[StateFileKind] = Seq(Snapshot, Database)
}

/**
 * A file of a partition's folder, as its name tells: `12_<id>.delta`.
 *
 * @param version
 *   that the state has with this file
 */
private[pillarbox] final case class StateFile(kind: StateFileKind, version: Long, id: Option[String]) {
  def name: String = s"$version${id.fold("")("_" + _)}.${kind.suffix}"
}

private[pillarbox] object StateFile {
  private val Name = """(\d+)_([0-9a-zA-Z-]+)\.(delta|snapshot|database|carried)""".r

  /** None for files of others. */
  def parse(name: String): Option[StateFile] = name match {
    case Name(version, id, suffix) =>
      for {
        kind <- StateFileKind.all.find(_.suffix == suffix)
        number <- version.toLongOption
      } yield StateFile(kind, number, Some(id))
    case _ => None
  }
}
