package io.pillarbox.state

import java.util
import java.util.AbstractMap.SimpleEntry
import java.util.Map.Entry

import io.pillarbox.api.{MapState, StateDescriptor}

/** A map whose iterators are walks of a cursor. */
private[pillarbox] trait IteratedMap[UK, UV] extends MapState[UK, UV] {
  def descriptor: StateDescriptor[_]

  protected def cursor(): TimestampedCursor[UK, UV]

  /** Tells if there is an entry of this key; does not count as an access. */
  protected def isThere(key: UK): Boolean

  override final def keyIterator: util.Iterator[UK] = new Walk[UK](cursor()) {
    override protected def made: UK = at.key
  }

  override final def valueIterator: util.Iterator[UV] = new Walk[UV](cursor()) {
    override protected def made: UV = at.value
  }

  override final def iterator: util.Iterator[Entry[UK, UV]] = new Walk[Entry[UK, UV]](cursor()) {
    override protected def made: Entry[UK, UV] = new LiveEntry(at)
  }

  private abstract class Walk[A](protected val at: TimestampedCursor[UK, UV]) extends util.Iterator[A] {
    private var isAhead = false
    private var isOver = false
    private var hasLast = false

    protected def made: A

    override def hasNext: Boolean = {
      at.check()
      if (!isAhead && !isOver) {
        isAhead = at.next()
        isOver = !isAhead
      }
      isAhead
    }

    override def next(): A = {
      if (!hasNext) throw StateErrors.ends("map", descriptor.name)
      val result = made
      at.take()
      isAhead = false
      hasLast = true
      result
    }

    override def remove(): Unit = {
      at.check()
      if (!hasLast) throw StateErrors.nothingToRemove
      at.remove()
      hasLast = false
    }
  }

  /** An entry that an iteration returned; setting its value puts it into the map. */
  private final class LiveEntry(at: TimestampedCursor[UK, UV]) extends SimpleEntry[UK, UV](at.key, at.value) {
    override def setValue(value: UV): UV = {
      at.check()
      if (!isThere(getKey)) throw StateErrors.entryGone(descriptor.name)
      put(getKey, value)
      super.setValue(value)
    }
  }
}
