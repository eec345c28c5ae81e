package io.pillarbox.spark.state

import java.nio.file.Path

import scala.util.control.NonFatal

import io.pillarbox.api.TimeDomain
import io.pillarbox.operator.EventClock
import io.pillarbox.spark.checkpoint.DueTimes
import io.pillarbox.state.rocksdb.RocksDBKeyedStateBackend
import io.pillarbox.state.{KeyedStateBackend, StateClock}
import io.pillarbox.timer._
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.slf4j.LoggerFactory

/**
 * The state and timers of one partition, with their clocks. It stays open in the executor between
 * micro-batches; one task at a time uses it, after [[takeOver]].
 *
 * @param trackChanges true if changes can be committed
 * @param timersInDatabase true if the timers are in the database of the state
 */
private[pillarbox] final class PartitionState(
    makeBackend: StateClock => KeyedStateBackend[UnsafeRow],
    makeQueues: KeyedStateBackend[UnsafeRow] => TimerQueues,
    release: () => Unit,
    trackChanges: Boolean,
    val timersInDatabase: Boolean = false
) extends AutoCloseable {
  val clock = new EventClock
  val backend: KeyedStateBackend[UnsafeRow] = makeBackend(clock)
  val timers: InternalTimerServiceImpl[UnsafeRow] =
    try new InternalTimerServiceImpl[UnsafeRow](backend, makeQueues(backend), trackChanges)
    catch {
      case e: Throwable =>
        backend.close()
        throw e
    }

  /** The keys of the rows of late. */
  lazy val hotKeys: HotKeys = new HotKeys

  /** The object that the operator keeps from one micro-batch to the next, or null. */
  var kept: AutoCloseable = _

  /** True once the function of this query was opened on it, and its states were checked. */
  var isClaimed = false

  /** True if the state should be opened again, as its database has outgrown its options. Any thread. */
  def hasOutgrown: Boolean = backend match {
    case rocksdb: RocksDBKeyedStateBackend[_] => rocksdb.store.hasOutgrown
    case _ => false
  }

  /** The folder of its database, or null. */
  def directory: Path = backend match {
    case rocksdb: RocksDBKeyedStateBackend[_] => rocksdb.store.directory
    case _ => null
  }

  /** Makes the calling thread the owner. */
  def takeOver(): Unit = backend.takeOwnership()

  def dueTimes: DueTimes =
    DueTimes(timers.nextTimestamp(TimeDomain.EVENT_TIME), timers.nextTimestamp(TimeDomain.PROCESSING_TIME))

  /** The bytes in the cache over its database, as of the last commit. Any thread. */
  def cacheUsed: Long = backend match {
    case rocksdb: RocksDBKeyedStateBackend[_] => rocksdb.cacheUsed
    case _ => 0L
  }

  /** Writes what the cache holds to its database. */
  def writeCache(): Unit = backend match {
    case rocksdb: RocksDBKeyedStateBackend[_] =>
      if (timersInDatabase) timers.flush()
      rocksdb.writeCache()
    case _ => ()
  }

  /** Deletes what is hidden in its database, as it is of other partitions. Any thread, while it is used. */
  def sweep(): Unit = backend match {
    case database: RocksDBKeyedStateBackend[_] => database.store.hidden.sweep()
    case _ => ()
  }

  /** The rows are done, and the task that closes it may be another query's: what it throws fails nobody. */
  private def closeKept(): Unit =
    try kept.close()
    catch {
      case e @ (NonFatal(_) | _: LinkageError) => PartitionState.log.warn("Could not close a function", e)
    }

  override def close(): Unit =
    try if (kept != null) closeKept()
    finally
      try timers.close()
      finally
        try backend.close()
        finally release()
}

private object PartitionState {
  private val log = LoggerFactory.getLogger(classOf[PartitionState])
}
