package io.pillarbox.state.rocksdb

import java.util

import io.pillarbox.state.changelog.StateMeta
import org.rocksdb.ColumnFamilyHandle

/**
 * The column family of one state, and which entries of the cache a commit must tell of.
 *
 * @param id short name in the cache and in streams
 */
private[rocksdb] final class StateColumn(val id: Int) {
  var family: ColumnFamilyHandle = _
  var familyNumber = 0
  var name: ColumnName = _
  var meta: StateMeta = _

  /** Whether the database may have entries of it. */
  var isStored = false

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
