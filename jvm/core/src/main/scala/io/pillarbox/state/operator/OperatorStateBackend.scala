package io.pillarbox.state.operator

import java.io.{InputStream, OutputStream}

import scala.collection.mutable

import io.pillarbox.api.{InputView, ListState, SerializerSnapshot, StateDescriptor, TypeSerializer}
import io.pillarbox.state._
import io.pillarbox.state.changelog._

/**
 * Lists of one partition, without keys: what an operator has in flight, for instance. On the heap.
 *
 * For the owner thread only. A snapshot has all elements in order; restoring several snapshots, one after the
 * other, appends them, so partitions can be merged.
 */
private[pillarbox] final class OperatorStateBackend {
  private val states = mutable.LinkedHashMap.empty[String, HeapOperatorList[_]]
  private val unclaimed =
    mutable.LinkedHashMap.empty[String, mutable.ArrayBuffer[(StateMeta, Array[Byte])]]

  /**
   * The list of this name, created at the first call, with the elements that were restored under the name.
   *
   * @throws StateRegistrationException if the name is taken by another type, or the elements can't be read as
   *   this one
   */
  def getListState[T](name: String, serializer: TypeSerializer[T]): OperatorListState[T] =
    states.get(name) match {
      case Some(state) if state.serializer.snapshot == serializer.snapshot =>
        state.asInstanceOf[OperatorListState[T]]
      case Some(state) =>
        throw StateErrors.clash(name, "element type", state.serializer.snapshot, serializer.snapshot)
      case None =>
        val state = new HeapOperatorList(name, serializer)
        unclaimed.get(name).foreach { elements =>
          elements.foreach { case (meta, bytes) =>
            val plan = RestorePlan.of[T, Any](meta, state.descriptor, StateClock.Unknown)
            state.add(plan.value(new InputView(bytes)))
          }
          unclaimed -= name
        }
        states(name) = state
        state
    }

  /** Writes all lists. The stream is flushed, not closed. */
  def snapshot(out: OutputStream): CommitSummary = {
    val metas = states.values.zipWithIndex.map { case (state, i) => StateMeta.of(i, state.descriptor, 0L) } ++
      unclaimed.values.zipWithIndex.map { case (elements, i) => elements.head._1.copy(id = states.size + i) }
    val header = StreamHeader(
      isSnapshot = true,
      0L,
      OperatorStateBackend.NoKey,
      1,
      OperatorStateBackend.OneGroup,
      metas.toSeq
    )
    val writer = new StateStreamWriter(out, header)
    states.values.zipWithIndex.foreach { case (state, i) =>
      writer.beginState(i)
      state.writeTo(writer)
    }
    unclaimed.values.zipWithIndex.foreach { case (elements, i) =>
      writer.beginState(states.size + i)
      elements.zipWithIndex.foreach { case ((_, bytes), at) =>
        OperatorStateBackend.write(writer, at.toLong)(writer.out.writeBytes(bytes))
      }
    }
    writer.finish()
  }

  /**
   * Reads a snapshot, before the first list is asked for.
   *
   * @throws StateRestoreException if it is damaged, of a newer format or not of operator state; `source`
   *   names it
   */
  def restore(in: InputStream, source: String): Unit = {
    if (states.nonEmpty)
      throw new IllegalStateException(s"$source can't be restored: lists are in use already, restore first")
    var metas = Map.empty[Int, StateMeta]
    new StateStreamReader(in, source).read(OperatorStateBackend.OneGroup) { header =>
      if (header.key != OperatorStateBackend.NoKey)
        throw StateStreamFormat.mismatch(source, "keys of type", header.key, "none: it is operator state")
      metas = header.states.map(meta => meta.id -> meta).toMap
    } { block =>
      metas.get(block.state).foreach { meta =>
        val elements = unclaimed.getOrElseUpdate(meta.name, mutable.ArrayBuffer.empty)
        val cursor = block.cursor
        while (cursor.next())
          elements += ((
            meta,
            java.util.Arrays.copyOfRange(
              cursor.array,
              cursor.valueOffset,
              cursor.valueOffset + cursor.valueLength
            )
          ))
      }
    }
  }
}

/** A list of one partition. Elements are never null. */
private[pillarbox] trait OperatorListState[T] {
  def add(value: T): Unit
  def addAll(values: Iterable[T]): Unit

  /** Replaces the list. */
  def update(values: Iterable[T]): Unit

  /** The elements as they are now; later changes don't show. */
  def get(): Iterator[T]
  def clear(): Unit
}

private object OperatorStateBackend {
  val NoKey: SerializerSnapshot = SerializerSnapshot.of("operator")
  val OneGroup: KeyGroupRange = KeyGroupRange(0, 0)

  /** Writes one element: an empty key, its place, and what `value` writes. */
  def write(writer: StateStreamWriter, at: Long)(value: => Unit): Unit = {
    writer.beginPut(0)
    writer.out.writeShort(0)
    writer.out.writeVarInt(0)
    writer.out.writeVarInt(0)
    writer.out.writeLong(at)
    writer.endKey()
    value
    writer.endValue()
  }
}

private final class HeapOperatorList[T](name: String, val serializer: TypeSerializer[T])
    extends OperatorListState[T] {
  private var held = Vector.empty[T]

  val descriptor: StateDescriptor[ListState[T]] = StateDescriptor.list(name, serializer)

  override def add(value: T): Unit = {
    if (value == null) throw StateErrors.nullValue(name, "an element")
    held = held :+ value
  }

  override def addAll(values: Iterable[T]): Unit = values.foreach(add)

  override def update(values: Iterable[T]): Unit = {
    val all = values.toVector
    if (all.exists(_ == null)) throw StateErrors.nullValue(name, "an element")
    held = all
  }

  override def get(): Iterator[T] = held.iterator

  override def clear(): Unit = held = Vector.empty

  def writeTo(writer: StateStreamWriter): Unit = held.iterator.zipWithIndex.foreach { case (element, at) =>
    OperatorStateBackend.write(writer, at.toLong)(serializer.serialize(element, writer.out))
  }
}
