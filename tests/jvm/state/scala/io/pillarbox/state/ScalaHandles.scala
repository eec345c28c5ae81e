package io.pillarbox.state

import java.util
import java.util.Map.Entry

import scala.jdk.CollectionConverters._

import io.pillarbox.api.{ExpiryListener, MapState, State, StateDescriptor, StateTtl}

/** State handles with Scala's collections, for tests. */
object ScalaHandles {

  /** An iterator of a map, which can remove what it returned last. */
  final class Walk[T](under: util.Iterator[T]) extends Iterator[T] {
    override def hasNext: Boolean = under.hasNext
    override def next(): T = under.next()
    def remove(): Unit = under.remove()
  }

  implicit final class ScalaMap[UK, UV](private val map: MapState[UK, UV]) extends AnyVal {
    def entries: Walk[Entry[UK, UV]] = new Walk(map.iterator)
    def keyWalk: Walk[UK] = new Walk(map.keyIterator)
    def valueWalk: Walk[UV] = new Walk(map.valueIterator)
  }

  implicit final class Living[S <: State](private val descriptor: StateDescriptor[S]) extends AnyVal {
    def living(
        ttl: Option[StateTtl],
        onExpire: Option[ExpiryListener] = None
    ): StateDescriptor[S] = {
      val lasting = ttl.fold(descriptor)(descriptor.withTtl)
      onExpire.fold(lasting)(lasting.withExpiryListener)
    }
  }

  implicit def scalaElements[T](all: java.lang.Iterable[T]): Iterator[T] = all.iterator.asScala
  implicit def javaElements[T](all: Iterable[T]): java.lang.Iterable[T] = all.asJava
  implicit def javaMap[UK, UV](all: Seq[(UK, UV)]): util.Map[UK, UV] = all.toMap.asJava
}
