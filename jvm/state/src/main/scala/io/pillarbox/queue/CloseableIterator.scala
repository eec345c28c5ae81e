package io.pillarbox.queue

/**
 * An iterator that may hold native memory: close it, also when it was not read to its end.
 *
 * `close` may be called more than once. `next` past the end throws `NoSuchElementException`.
 */
private[pillarbox] trait CloseableIterator[+T] extends Iterator[T] with AutoCloseable {
  override def close(): Unit = ()
}

private[pillarbox] object CloseableIterator {

  /** Wraps an iterator that holds nothing which needs closing. */
  def of[T](underlying: Iterator[T]): CloseableIterator[T] = new CloseableIterator[T] {
    override def hasNext: Boolean = underlying.hasNext
    override def next(): T = underlying.next()
  }
}
