package io.pillarbox.spark.checkpoint

/** What a file of state holds. */
sealed abstract class StateFileKind(val suffix: String)

object StateFileKind {

  /** What one micro-batch changed. */
  case object Delta extends StateFileKind("delta")

  /** Everything. */
  case object Snapshot extends StateFileKind("snapshot")
}

/**
 * A file of a partition's folder, as its name tells: `12.delta`, or `12_<id>.delta` where ids are in the names.
 *
 * @param version
 *   that the state has with this file
 */
final case class StateFile(kind: StateFileKind, version: Long, id: Option[String]) {
  def name: String = s"$version${id.fold("")("_" + _)}.${kind.suffix}"
}

object StateFile {
  private val Name = """(\d+)(?:_([0-9a-zA-Z-]+))?\.(delta|snapshot)""".r

  /** None for files of others. */
  def parse(name: String): Option[StateFile] = name match {
    case Name(version, id, suffix) =>
      val kind = if (suffix == StateFileKind.Delta.suffix) StateFileKind.Delta else StateFileKind.Snapshot
      version.toLongOption.map(StateFile(kind, _, Option(id)))
    case _ => None
  }
}
