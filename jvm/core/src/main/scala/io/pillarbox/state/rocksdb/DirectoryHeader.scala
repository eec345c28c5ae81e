package io.pillarbox.state.rocksdb

import java.nio.charset.StandardCharsets.UTF_8

import io.pillarbox.state.StateRestoreException
import io.pillarbox.state.changelog.StreamHeader
import io.pillarbox.state.serialization.{InputView, OutputView}
import org.rocksdb.RocksDB

/**
 * The mark that makes a directory a complete checkpoint: what its column families hold, in the default column family.
 *
 * It is taken away as soon as a backend works in the directory, so one that a crash left behind has none.
 */
private[rocksdb] object DirectoryHeader {
  private val Key = "header".getBytes(UTF_8)

  /**
   * Reads and removes the header; None if the database is new.
   *
   * @throws StateRestoreException if there are column families but no header
   */
  def take(store: RocksDBStore): Option[StreamHeader] =
    if (store.columnFamilies.forall(_.getID == 0) && read(store) == null) None
    else
      read(store) match {
        case null =>
          throw new StateRestoreException(
            "STATE_DIRECTORY_UNCLEAN",
            s"${store.directory} holds a database that is no complete checkpoint, perhaps left by a crash: delete the " +
              "directory, and restore from a snapshot"
          )
        case bytes =>
          remove(store)
          Some(StreamHeader.readFrom(new InputView(bytes)))
      }

  def put(store: RocksDBStore, header: StreamHeader): Unit = {
    val out = new OutputView
    header.writeTo(out)
    val batch = new BatchBuilder(store)
    batch.put(0, Key, 0, Key.length, out.array, 0, out.length)
    batch.write()
  }

  def remove(store: RocksDBStore): Unit = {
    val batch = new BatchBuilder(store)
    batch.delete(0, Key, 0, Key.length)
    batch.write()
    store.flush()
  }

  private def read(store: RocksDBStore): Array[Byte] = {
    val small = new Array[Byte](1 << 16)
    val length = store.get(store.defaultColumnFamily, Key, Key.length, small)
    if (length == RocksDB.NOT_FOUND) null
    else if (length <= small.length) java.util.Arrays.copyOf(small, length)
    else {
      val large = new Array[Byte](length)
      store.get(store.defaultColumnFamily, Key, Key.length, large): Unit
      large
    }
  }
}
