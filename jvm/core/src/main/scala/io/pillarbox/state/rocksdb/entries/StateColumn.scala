package io.pillarbox.state.rocksdb.entries

import io.pillarbox.state.changelog.StateMeta
import io.pillarbox.state.rocksdb.cache.{EntryList, GroupedEntries, WriteBackCache}
import io.pillarbox.state.rocksdb.store.ColumnName
import org.rocksdb.ColumnFamilyHandle

/**
 * The column family of one state, or of what else is kept beside states, and which entries of the cache it or
 * a commit lacks.
 *
 * @param id short name in the cache
 * @param streamId that of the state in streams
 * @param log of a list's chunks: what else a commit must tell of its elements ([[ListChanges]]), a column
 *   without family, of which nothing reaches the database; null otherwise
 * @param cache that its entries are in
 * @param keyGroupWidth how many bytes of a key name its group
 */
private[rocksdb] final class StateColumn(
    val id: Int,
    val streamId: Int,
    val log: StateColumn,
    cache: WriteBackCache,
    keyGroupWidth: Int = 2
) {

  /** Whether its entries go to the database. */
  val isKept: Boolean = id == streamId

  /** Whether its entries are chunks of lists. */
  val isPacked: Boolean = log != null

  /** Of lists: commits have told of elements with a number below this. */
  var toldBelow = 0L

  /** Whether commits tell of what is written now; not of what is read from them. */
  var isTold = true

  var family: ColumnFamilyHandle = _
  var familyNumber = 0
  var name: ColumnName = _
  var meta: StateMeta = _

  /** Whether the database may have entries of it. */
  var isStored = false

  /** The entry of the cache that was found last; a key is read and then written mostly. */
  var recent: Int = -1

  /** The entries of the cache that a commit must tell of, in the order in which they changed first. */
  val changed = new EntryList

  /** Those that the database lacks. */
  val unwritten = new GroupedEntries(cache, keyGroupWidth)

  def use(family: ColumnFamilyHandle, name: ColumnName): Unit = {
    this.family = family
    this.name = name
    familyNumber = family.getID
  }
}
