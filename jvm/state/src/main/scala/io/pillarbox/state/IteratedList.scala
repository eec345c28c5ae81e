package io.pillarbox.state

import java.util
import java.util.Objects

import scala.jdk.CollectionConverters._

import io.pillarbox.api.ListState

/** A list with Scala's collections on the inside, and Java's on the outside. */
private[pillarbox] trait IteratedList[T] extends ListState[T] {

  /**
   * The elements, empty if there are none; fails with ConcurrentModificationException once the list is
   * changed.
   */
  def elements: Iterator[T]

  /** Adds all or, if one is null, none. */
  def addElements(values: Iterable[T]): Unit

  /** Replaces the list; an empty one clears it. */
  def replaceBy(values: Iterable[T]): Unit

  override final def get(): java.lang.Iterable[T] = new Found

  override final def addAll(values: java.lang.Iterable[_ <: T]): Unit = addElements(taken(values))

  override final def update(values: java.lang.Iterable[_ <: T]): Unit = replaceBy(taken(values))

  /** Copies an iterable that may give its elements only once, or may be this very list. */
  private def taken(values: java.lang.Iterable[_ <: T]): Iterable[T] = values match {
    case several: util.Collection[_] => several.asInstanceOf[util.Collection[T]].asScala
    case _ => Objects.requireNonNull(values, "a list takes elements, found null").asScala.toVector
  }

  /** The elements at this moment, for the first iteration. */
  private final class Found extends java.lang.Iterable[T] {
    private var first = elements

    override def iterator(): util.Iterator[T] = {
      val found = if (first != null) first else elements
      first = null
      found.asJava
    }
  }
}
