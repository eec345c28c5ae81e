package io.pillarbox.async

import java.util

import io.pillarbox.api.{AsyncFunction, ResultFuture}

/**
 * A function that answers many inputs with one call. The operator gathers the inputs ([[Batching]]); a group
 * takes one permit of the limiter, from its call until its last attempt is answered or abandoned.
 *
 * Each future is a separate attempt: its element is answered, retried and given up independently of the
 * others, and may be in another group the next time.
 */
private[pillarbox] trait BatchAsyncFunction[IN, OUT] extends AsyncFunction[IN, OUT] {

  /** Starts one call for all inputs; the futures are theirs, in their order. The lists no longer change. */
  @throws[Exception]
  def asyncInvokeBatch(inputs: util.List[IN], resultFutures: util.List[ResultFuture[OUT]]): Unit

  override def asyncInvoke(input: IN, resultFuture: ResultFuture[OUT]): Unit =
    asyncInvokeBatch(util.List.of(input), util.List.of(resultFuture))
}

/**
 * Says how elements are gathered for a [[BatchAsyncFunction]].
 *
 * @param size the most elements that are called together
 * @param waitMs how long the first of a group waits for others; less once the input has ended and no retry is
 *   to come
 */
private[pillarbox] final case class Batching(size: Int, waitMs: Long) {
  require(size > 0, s"The size of a batch must be positive, not $size")
  require(waitMs >= 0, s"The wait for a batch must not be negative, but is $waitMs ms")
}
