package io.pillarbox.state.rocksdb.store

import java.nio.charset.StandardCharsets.UTF_8

/**
 * The content of the name of a state's column family: the state, which of its column families it is (a
 * migration makes a new one), and the age in seconds after which compaction drops entries, 0 for never.
 */
private[rocksdb] final case class ColumnName(state: String, generation: Int, ttlSeconds: Int) {
  def toBytes: Array[Byte] = s"$generation@$ttlSeconds:$state".getBytes(UTF_8)
}

private[rocksdb] object ColumnName {
  private val Pattern = """(\d+)@(\d+):(.+)""".r

  def parse(bytes: Array[Byte]): Option[ColumnName] = new String(bytes, UTF_8) match {
    case Pattern(generation, ttl, state) => Some(ColumnName(state, generation.toInt, ttl.toInt))
    case _ => None
  }
}
