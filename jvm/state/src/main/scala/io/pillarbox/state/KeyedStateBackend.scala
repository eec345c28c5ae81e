package io.pillarbox.state

import java.io.{InputStream, OutputStream}

import scala.collection.mutable

import io.pillarbox.api.{State, StateDescriptor, TypeSerializer}

/**
 * Holds all keyed state of one partition: handles by descriptor, the current key, commits and snapshots.
 *
 * Every method is for the owner thread (the creating one, until [[takeOwnership]]), except where it says
 * otherwise. State is durable only through what [[commit]] and [[snapshot]] write; restoring a snapshot and
 * the logs after it, in order, into a new backend of either kind gives the state of the last log's commit.
 */
private[pillarbox] abstract class KeyedStateBackend[K](
    final val keySerializer: TypeSerializer[K],
    final val clock: StateClock
) extends AutoCloseable {
  private var owner: Thread = Thread.currentThread
  private var key: K = _
  private var keySet = false
  private[state] var keyHash = 0
  private[state] var namespace: Namespace = Namespace.Void

  /** Changes whenever key or namespace do, so that a handle knows when a position it kept is stale. */
  private[state] var contextVersion = 0L
  private var start = StateClock.Unknown
  private val states = mutable.LinkedHashMap.empty[String, KeyedStateBackend.Registered]
  protected final var currentVersion = 0L
  protected final var isClosed = false

  /**
   * Makes `key` the current key, on which handles act, in the void namespace.
   *
   * @throws IllegalArgumentException if the key is null
   */
  final def setCurrentKey(key: K): Unit = {
    if (key == null) throw new IllegalArgumentException("The current key can't be null: filter such rows out")
    setCurrentKey(key, keySerializer.hash(key))
  }

  /** Does as [[setCurrentKey]], with the key's hash by the key serializer. */
  private[pillarbox] final def setCurrentKey(key: K, hash: Int): Unit = {
    checkThread()
    this.key = key
    keySet = true
    keyHash = hash
    namespace = Namespace.Void
    contextVersion += 1
  }

  /** Leaves the key context: keyed access fails until the next [[setCurrentKey]]. */
  final def clearCurrentKey(): Unit = {
    keySet = false
    key = null.asInstanceOf[K]
    contextVersion += 1
  }

  /** @throws StateAccessException if no key is set */
  final def currentKey: K = if (keySet) key else throw StateErrors.noCurrentKey

  /** Sets the namespace that handles act on until the next [[setCurrentKey]]. */
  final def setCurrentNamespace(namespace: Namespace): Unit = {
    this.namespace = namespace
    contextVersion += 1
  }

  /**
   * The first watermark that was ever known, [[StateClock.Unknown]] before it: the life of event-time state
   * that was written without any time begins then. Part of commits and snapshots.
   */
  final def firstWatermark: Long = start

  /** Tells a watermark, before state is used under it; only the first that is known counts. */
  final def noteWatermark(watermark: Long): Unit = if (start == StateClock.Unknown) start = watermark

  /**
   * Tells that the clock's processing time, in milliseconds, won't be before this any more: clean-up by the
   * machine's clock must not get ahead of it. To be told at the start of every batch, if time stands still
   * within one.
   */
  def timeIs(processingTime: Long): Unit = ()

  /** Takes the latest first watermark of the snapshots of several partitions. */
  protected final def restoreFirstWatermark(found: Long): Unit = start = math.max(start, found)

  /**
   * Returns the handle of `descriptor`, created at the first call.
   *
   * @throws StateRegistrationException if the name is taken by another type, or the state restored under it
   *   can't be read with this descriptor; nothing is changed then
   */
  final def getOrCreate[S <: State](descriptor: StateDescriptor[S]): S =
    registered(descriptor).handle.asInstanceOf[S]

  /** Returns the raw state behind a handle, whose timestamps the caller judges; created if there is none. */
  private[pillarbox] final def timestampedValue[T](descriptor: StateDescriptor[_]): TimestampedValue[T] =
    registered(descriptor).raw.asInstanceOf[TimestampedValue[T]]

  private[pillarbox] final def timestampedList[T](descriptor: StateDescriptor[_]): TimestampedList[T] =
    registered(descriptor).raw.asInstanceOf[TimestampedList[T]]

  private[pillarbox] final def timestampedMap[UK, UV](
      descriptor: StateDescriptor[_]
  ): TimestampedMap[UK, UV] =
    registered(descriptor).raw.asInstanceOf[TimestampedMap[UK, UV]]

  private def registered(descriptor: StateDescriptor[_]): KeyedStateBackend.Registered = {
    checkThread()
    states.get(descriptor.name) match {
      case Some(found) =>
        Registration.checkSame(found.raw.descriptor, descriptor)
        found
      case None =>
        val raw = createState(descriptor)
        val made = new KeyedStateBackend.Registered(raw, FoldingState.over(judged(raw), descriptor))
        states(descriptor.name) = made
        made
    }
  }

  /**
   * Writes every entry changed since the last commit (or restore) and makes this the new version.
   *
   * The cost is proportional to the change. If it throws, the version stays and the entries remain changed.
   * The stream is flushed, not closed.
   *
   * @throws UnsupportedOperationException if the backend was made without a change log
   */
  def commit(out: OutputStream): CommitSummary

  /**
   * Writes all state, committed or not, in the portable format. The stream is flushed, not closed.
   *
   * Nothing else can use the state until it is written, so the pause grows with the state. Use commits for
   * frequent checkpoints; RocksDB's `checkpoint` of its files is quick as well.
   */
  def snapshot(out: OutputStream): CommitSummary

  /**
   * Reads a snapshot, or a log that follows the last read one. Must come before the first state is
   * registered.
   *
   * Those of several partitions (before a change of their number) may be read one after the other, with
   * [[restoresOther]] between them.
   *
   * @param source names the file in errors
   * @param keeps true for the keys whose entries are taken; null for all
   * @throws StateRestoreException if it is damaged, of a newer format, or doesn't follow; close the backend
   *   then
   */
  final def restore(in: InputStream, source: String, keeps: K => Boolean = null): Unit = {
    checkThread()
    if (states.nonEmpty)
      throw new IllegalStateException(
        s"$source can't be restored: states are registered already, restore first"
      )
    doRestore(in, source, keeps)
  }

  protected def doRestore(in: InputStream, source: String, keeps: K => Boolean): Unit

  /** Tells that what is restored next is of another partition, with keys of its own. */
  final def restoresOther(): Unit = currentVersion = 0L

  /** The restored states that are not registered yet. Their entries are kept, and go into snapshots. */
  def unclaimedStates: Seq[String]

  /** The number of commits that led to this state. */
  final def version: Long = currentVersion

  /** The number of entries, as in the metrics, but of this moment. */
  def entryCount: Long = metrics.entries

  /** Corrects [[entryCount]] after a restore, for a backend that takes every entry of a log for a new one. */
  def assumeEntries(count: Long): Unit = ()

  /** Returns rough, cheap figures. May be called from any thread. */
  def metrics: StateMetrics

  /** Makes the calling thread the owner. Call it when no other thread uses the backend. */
  final def takeOwnership(): Unit = owner = Thread.currentThread

  /** Frees everything. Idempotent; any thread, once the owner has stopped using the backend. */
  override def close(): Unit

  protected def createState(descriptor: StateDescriptor[_]): Timestamped

  /** Returns the state as the user gets it: the raw state, or a layer over it that judges its timestamps. */
  protected def judged(raw: Timestamped): State

  private[state] final def hasCurrentKey: Boolean = keySet

  /** Checks the thread and that there is a key; every keyed access calls it first. */
  private[pillarbox] final def checkAccess(): Unit = {
    if (Thread.currentThread ne owner) throw StateErrors.wrongThread(owner)
    if (!keySet) throw if (isClosed) StateErrors.closed else StateErrors.noCurrentKey
  }

  private[pillarbox] final def checkThread(): Unit = {
    if (Thread.currentThread ne owner) throw StateErrors.wrongThread(owner)
    if (isClosed) throw StateErrors.closed
  }

  /** Runs a callback of the user without a current key, so that it can't touch keyed state. */
  private[state] final def withoutKey(action: => Unit): Unit = {
    val (wasSet, wasKey) = (keySet, key)
    keySet = false
    try action
    finally {
      keySet = wasSet
      key = wasKey
    }
  }

}

private[pillarbox] object KeyedStateBackend {

  /** A state as it is kept, and as the user sees it. */
  private final class Registered(val raw: Timestamped, val handle: State)
}

/**
 * The summary of a commit or snapshot.
 *
 * @param version the state's version after it
 * @param entries the number of values, list elements, map entries and removals written
 * @param bytes the length of the stream
 * @param removals the number of removals among the entries
 */
private[pillarbox] final case class CommitSummary(
    version: Long,
    entries: Long,
    bytes: Long,
    removals: Long = 0
)

/**
 * The figures of a backend; -1 where the backend can't know.
 *
 * @param entries values, list elements and map entries held as of the last commit (RocksDB: entries that
 *   compaction dropped still count)
 * @param fileBytes the bytes of its files, 0 on the heap
 * @param memoryBytes the bytes of write buffers and the write-back cache (the block cache is the process's),
 *   -1 on the heap
 */
private[pillarbox] final case class StateMetrics(
    entries: Long,
    fileBytes: Long,
    memoryBytes: Long
)

/** Checks that one name has one type. */
private[state] object Registration {

  /** @throws StateRegistrationException if the two differ in anything but their functions */
  def checkSame(registered: StateDescriptor[_], wanted: StateDescriptor[_]): Unit = {
    def check(what: String, left: Any, right: Any): Unit =
      if (left != right) throw StateErrors.clash(registered.name, what, left, right)
    check("kind", registered.kind, wanted.kind)
    check("value type", snapshot(registered.valueSerializer), snapshot(wanted.valueSerializer))
    check("map key type", snapshot(registered.userKeySerializer), snapshot(wanted.userKeySerializer))
    check("TTL", registered.ttl, wanted.ttl)
  }

  private def snapshot(serializer: TypeSerializer[_]): Any =
    if (serializer == null) "none" else serializer.snapshot
}

private[pillarbox] object StateNames {

  /** The prefix of the names that a checkpoint has beside a function's states; Python knows the same. */
  final val Reserved = "pillarbox "

  /** @throws java.lang.IllegalArgumentException if a function can't give a state this name */
  def check(name: String): Unit = if (name.startsWith(Reserved))
    throw new IllegalArgumentException(
      s"The name of a state can't begin with '$Reserved', but it is '$name': checkpoints have the timers " +
        "and waiting rows under such names. Give the state another name"
    )
}

/**
 * The part of the keys in a stored database that is a partition's own. The others' entries are hidden from it
 * until a sweep has deleted them.
 *
 * @param share about what part of all that is, from 0 to 1
 * @param entries the entries of all keys
 * @param newTest makes a test that is true for the partition's keys, for one thread
 */
private[pillarbox] final class KeyPart[K](
    val share: Double,
    val entries: Long,
    newTest: () => K => Boolean
) {

  /** For the owner of the database. Made when it is asked first, since that takes milliseconds. */
  lazy val isMine: K => Boolean = newTest()

  /** For whoever sweeps the database. */
  lazy val isMineInSweep: K => Boolean = newTest()
}
