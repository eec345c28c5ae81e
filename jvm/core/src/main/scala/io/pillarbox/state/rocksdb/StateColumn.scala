package io.pillarbox.state.rocksdb

import java.util

import io.pillarbox.state.changelog.StateMeta
import org.rocksdb.ColumnFamilyHandle

/**
 * The column family of one state, and which entries of the cache a commit must tell of.
 *
 * @param id short name in the cache
 * @param streamId that of the state in streams
 * @param log
 *   of a list's chunks: what else a commit must tell of its elements ([[ListChanges]]), a column without family, of which
 *   nothing reaches the database; null otherwise
 */
private[rocksdb] final class StateColumn(val id: Int, val streamId: Int, val log: StateColumn) {

  /** Whether its entries go to the database. */
  val isKept: Boolean = id == streamId

  /** Whether its entries are chunks of lists. */
  val isPacked: Boolean = log != null

  /** Of lists: commits have told of elements with a number below this. */
  var toldBelow = 0L

  /** Whether what is written now is read from what commits have told. */
  var isLoading = false
  var family: ColumnFamilyHandle = _
  var familyNumber = 0
  var name: ColumnName = _
  var meta: StateMeta = _

  /** Whether the database may have entries of it. */
  var isStored = false

  /** The entry of the cache that was found last; a key is read and then written mostly. */
  var recent: Int = -1

  private[this] var changed = new Array[Int](16)
  private[this] var count = 0

  def use(family: ColumnFamilyHandle, name: ColumnName): Unit = {
    this.family = family
    this.name = name
    familyNumber = family.getID
  }

  def noteChanged(entry: Int): Unit = {
    if (count == changed.length) changed = util.Arrays.copyOf(changed, count * 2)
    changed(count) = entry
    count += 1
  }

  def changedCount: Int = count

  def changedEntry(i: Int): Int = changed(i)

  def forgetChanged(): Unit = count = 0
}
