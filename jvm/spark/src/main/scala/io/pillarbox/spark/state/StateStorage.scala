package io.pillarbox.spark.state

import com.fasterxml.jackson.databind.annotation.JsonDeserialize
import io.pillarbox.spark.base.SpecJson

/** The place where an executor keeps state or timers. */
@JsonDeserialize(using = classOf[StorageKindReader])
private[pillarbox] sealed abstract class StorageKind(val name: String)

private[pillarbox] object StorageKind {
  case object Heap extends StorageKind("heap")
  case object RocksDB extends StorageKind("rocksdb")
}

private final class StorageKindReader
    extends SpecJson.Named[StorageKind](
      "Where state or timers are kept",
      StorageKind.Heap,
      StorageKind.RocksDB
    )(_.name)

/** The storage of the state of a partition in an executor, and of its timers. */
private[pillarbox] final case class StateStorage(state: StorageKind, timers: StorageKind)
