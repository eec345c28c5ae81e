package io.pillarbox.state

import java.util

import scala.jdk.CollectionConverters._

import io.pillarbox.api.ListState

/** A list whose elements are Scala's collections inside, and Java's outside. */
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

  override final def addAll(values: java.lang.Iterable[_ <: T]): Unit = addElements(values.asScala)

  override final def update(values: java.lang.Iterable[_ <: T]): Unit = replaceBy(values.asScala)

  /** The elements at this moment, for the first iteration. */
  private final class Found extends java.lang.Iterable[T] {
    private var first = elements

    override def iterator(): util.Iterator[T] = {
      val taken = if (first != null) first else elements
      first = null
      taken.asJava
    }
  }
}
