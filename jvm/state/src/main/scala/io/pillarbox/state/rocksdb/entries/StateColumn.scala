package io.pillarbox.state.rocksdb.entries

import io.pillarbox.state.changelog.StateMeta
import io.pillarbox.state.rocksdb.cache.{EntryList, GroupedEntries, WriteBackCache}
import io.pillarbox.state.rocksdb.store.ColumnName
import org.rocksdb.ColumnFamilyHandle

/**
 * The column family of one state, or of a structure beside states, with the entries of the cache that it or a
 * commit lacks.
 *
 * @param id short name in the cache
 * @param streamId the id of the state in streams
 * @param log for a list's chunks, the further changes of elements for a commit ([[ListChanges]]): a column
 *   without family, of which nothing reaches the database; null otherwise
 * @param cache the cache with its entries
 * @param groupsByHash see [[GroupedEntries]]
 */
private[rocksdb] final class StateColumn(
    val id: Int,
    val streamId: Int,
    val log: StateColumn,
    cache: WriteBackCache,
    groupsByHash: Boolean = true
) {

  /** True if its entries go to the database. */
  val isKept: Boolean = id == streamId

  /** True if its entries are chunks of lists. */
  val isPacked: Boolean = log != null

  /** Commits have the elements of lists with a number below this. */
  var committedBelow = 0L

  /** True if entries that are written now go into commits; false while a log is read. */
  var isLogged = true

  var family: ColumnFamilyHandle = _
  var familyNumber = 0
  var name: ColumnName = _
  var meta: StateMeta = _

  /** True if the database may have entries of it. */
  var isStored = false

  /** The entry of the cache that was found last, since a key is mostly read and then written. */
  var recent: Int = -1

  /** The entries of the cache for the next commit, in the order in which they changed first. */
  val changed = new EntryList

  /** The entries that the database lacks. */
  val unwritten = new GroupedEntries(cache, groupsByHash)

  def use(family: ColumnFamilyHandle, name: ColumnName): Unit = {
    this.family = family
    this.name = name
    familyNumber = family.getID
  }
}
