package io.pillarbox.spark.state

/** Where state or timers are kept in an executor. */
sealed abstract class StorageKind(val name: String)

object StorageKind {
  case object Heap extends StorageKind("heap")
  case object RocksDB extends StorageKind("rocksdb")

  def of(option: String, name: String): StorageKind =
    Seq(Heap, RocksDB)
      .find(_.name == name)
      .getOrElse(throw new IllegalArgumentException(s"$option is \"heap\" or \"rocksdb\", found \"$name\""))
}

/** What keeps the state of a partition in an executor, and what its timers. */
final case class StateStorage(state: StorageKind, timers: StorageKind)
