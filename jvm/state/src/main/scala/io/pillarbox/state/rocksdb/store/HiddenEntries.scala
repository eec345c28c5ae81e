package io.pillarbox.state.rocksdb.store

import scala.collection.mutable
import scala.util.control.NonFatal

import org.rocksdb.ColumnFamilyHandle

/**
 * The entries of a database that are of another one's keys, since both have begun as copies of one. Who reads
 * by key never meets them, and who walks over keys leaves them out; [[sweep]] deletes them while the database
 * is used. They never change, so what deletes them and what writes others don't meet.
 *
 * Families are added before the database is used. Any thread, except where it says otherwise.
 */
private[pillarbox] final class HiddenEntries(store: RocksDBStore) extends AutoCloseable {
  import HiddenEntries._
  private val families = mutable.Queue.empty[Family]
  private lazy val batch = new BatchBuilder(store)

  /** The first key of the first family that was not looked at. */
  private var from = Array.emptyByteArray
  private var expected = 0L
  private var isClosed = false
  @volatile private var removed = 0L
  @volatile private var isGone = true
  @volatile private var isClosing = false
  @volatile private var isCompacting = false
  @volatile private var failure: Throwable = _

  /** True if there are none. */
  def isEmpty: Boolean = isGone

  /**
   * Looks for them in a column family.
   *
   * @param isMine false for the keys of entries to hide; by one thread at a time
   * @param elementsOf the number that an entry with this value counts for
   */
  def in(family: ColumnFamilyHandle, isMine: Array[Byte] => Boolean, elementsOf: Array[Byte] => Int): Unit =
    synchronized {
      families += new Family(family, isMine, elementsOf)
      isGone = false
    }

  /** Tells how many there are, about; see [[surplus]]. By the owner of the database. */
  def expect(count: Long): Unit = expected = count

  /**
   * Once, when all are gone: how many more they were than expected. 0 before and afterwards. By the owner of
   * the database.
   */
  def surplus(): Long =
    if (!isGone || expected == 0L) 0L
    else {
      val found = removed - expected
      expected = 0L
      found
    }

  /** Deletes all of them, and lets go of their place on the disk. Returns early if the database is closed. */
  def sweep(): Unit = while (!isGone && !isClosing) {
    val done = step()
    if (done != null) compact(done)
  }

  /** Deletes all of them. Another thread that does so already is waited for. */
  def finish(): Unit = {
    while (!isGone && !isClosing) step(): Unit
    check()
  }

  /** @throws RuntimeException that has ended a sweep */
  def check(): Unit = if (failure != null) throw failure

  /** Returns once nothing more happens in the database. */
  override def close(): Unit = {
    isClosing = true
    if (!isGone || isCompacting) store.cancelCompaction()
    synchronized { isClosed = true }
  }

  /** Looks at some entries more. Returns a family whose end it has reached, or null. */
  private def step(): ColumnFamilyHandle = synchronized {
    if (isClosed || families.isEmpty) null
    else
      try {
        val isLast = advance(families.head)
        if (!isLast) null
        else {
          val done = families.dequeue()
          from = Array.emptyByteArray
          isGone = families.isEmpty
          done.handle
        }
      } catch {
        case NonFatal(e) =>
          failure = e
          throw e
      }
  }

  /** True if it has come to the family's end. */
  private def advance(family: Family): Boolean = {
    val found = store.cursor(family.handle, from, null)
    try {
      var more = found.advance()
      var left = StepEntries
      while (more && left > 0) {
        delete(family, found)
        left -= 1
        more = found.advance()
      }
      if (more) from = found.key
      batch.write()
      !more
    } finally found.close()
  }

  private def delete(family: Family, at: StoreCursor): Unit = {
    val key = at.key
    if (!family.isMine(key)) {
      removed = removed + family.elementsOf(at.value)
      batch.delete(family.handle.getID, key, 0, key.length)
    }
  }

  private def compact(family: ColumnFamilyHandle): Unit = synchronized {
    if (!isClosed)
      try {
        isCompacting = true
        if (!isClosing) store.compactIfAllowed(family)
      } catch { case NonFatal(_) if isClosing => () }
      finally isCompacting = false
  }
}

private object HiddenEntries {

  /** So many are looked at while others wait to close the database. */
  private final val StepEntries = 10000

  private final class Family(
      val handle: ColumnFamilyHandle,
      val isMine: Array[Byte] => Boolean,
      val elementsOf: Array[Byte] => Int
  )
}
