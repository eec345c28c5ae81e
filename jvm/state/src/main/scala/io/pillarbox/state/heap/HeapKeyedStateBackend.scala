package io.pillarbox.state.heap

import java.io.{InputStream, OutputStream}

import scala.collection.mutable

import io.pillarbox.api.{State, StateDescriptor, TypeSerializer}
import io.pillarbox.state._
import io.pillarbox.state.changelog._
import io.pillarbox.state.ttl.TtlStates

/**
 * Keeps state as objects on the heap. The fastest backend; state must fit into memory.
 *
 * Values are the caller's objects, not copies: one that is changed after it was handed over changes state
 * without the next commit knowing.
 *
 * @param tracksChanges true if [[commit]] works; without it removed entries cost no memory until a commit
 * @param sweeps true if expired entries of other keys than the current one are cleared away; not where keys
 *   have a time each, as in a batch
 */
private[pillarbox] final class HeapKeyedStateBackend[K](
    keySerializer: TypeSerializer[K],
    clock: StateClock,
    val tracksChanges: Boolean = true,
    private[heap] val sweeps: Boolean = true
) extends KeyedStateBackend[K](keySerializer, clock) {
  private val states = mutable.LinkedHashMap.empty[String, HeapState[K]]
  private val unclaimed = mutable.LinkedHashMap.empty[String, RawState[K]]
  private var nextId = 0

  override protected def judged(raw: Timestamped): State = TtlStates.over(raw, this)

  override protected def createState(descriptor: StateDescriptor[_]): Timestamped = {
    val state = make(descriptor)
    unclaimed.get(descriptor.name).foreach { raw =>
      state.restore(raw)
      unclaimed -= descriptor.name
    }
    nextId += 1
    states(descriptor.name) = state
    state
  }

  private def make(descriptor: StateDescriptor[_]): HeapState[K] with Timestamped = descriptor.kind match {
    case StateDescriptor.Kind.LIST => new HeapListState[K, AnyRef](this, descriptor, nextId)
    case StateDescriptor.Kind.MAP => new HeapMapState[K, AnyRef, AnyRef](this, descriptor, nextId)
    case _ => new HeapValueState[K, AnyRef](this, descriptor, nextId)
  }

  override def unclaimedStates: Seq[String] = unclaimed.keys.toSeq

  override def commit(out: OutputStream): CommitSummary = {
    checkThread()
    if (!tracksChanges)
      throw new UnsupportedOperationException(
        "This backend was made without a change log: take snapshots instead"
      )
    val writer = new StateStreamWriter(out, header(isSnapshot = false, currentVersion + 1))
    states.values.foreach { state =>
      writer.beginState(state.id)
      state.writeChanges(writer)
    }
    val summary = writer.finish()
    states.values.foreach(_.commitChanges())
    currentVersion += 1
    summary
  }

  override def snapshot(out: OutputStream): CommitSummary = {
    checkThread()
    val writer = new StateStreamWriter(out, header(isSnapshot = true, currentVersion))
    states.values.foreach { state =>
      writer.beginState(state.id)
      state.writeAll(writer)
    }
    unclaimed.values.zipWithIndex.foreach { case (raw, i) =>
      writer.beginState(nextId + i)
      raw.writeAll(writer)
    }
    writer.finish()
  }

  private def header(isSnapshot: Boolean, version: Long): StreamHeader = {
    val own = states.values.map(state => StateMeta.of(state.id, state.descriptor, state.nextSequence))
    val others = unclaimed.values.zipWithIndex.map { case (raw, i) => raw.meta.copy(id = nextId + i) }
    StreamHeader(
      isSnapshot,
      version,
      keySerializer.snapshot,
      (own ++ others).toSeq,
      firstWatermark
    )
  }

  override protected def doRestore(in: InputStream, source: String, keeps: K => Boolean): Unit = {
    var metas = Map.empty[Int, StateMeta]
    new StateStreamReader(in, source).read { header =>
      currentVersion = header.versionIn(this, source, unclaimed.isEmpty)
      restoreFirstWatermark(header.firstWatermark)
      metas = header.states.map(meta => meta.id -> meta).toMap
      header.states.foreach(describe)
    } { block => metas.get(block.state).foreach(meta => unclaimed(meta.name).add(meta, block, keeps)) }
  }

  private def describe(meta: StateMeta): Unit = {
    val raw = unclaimed.getOrElseUpdate(meta.name, new RawState[K](keySerializer))
    val sequence = if (raw.meta == null) 0L else raw.meta.nextSequence
    raw.meta = meta.copy(nextSequence = math.max(meta.nextSequence, sequence))
  }

  override def metrics: StateMetrics = StateMetrics(states.values.map(_.used).sum, 0L, -1L)

  override def close(): Unit = {
    isClosed = true
    clearCurrentKey()
    states.clear()
    unclaimed.clear()
  }
}
