package io.pillarbox.async

import io.pillarbox.api.ResultFuture

/** The futures of an [[AsyncWaitOperator]], with methods that are not for users. */
private[pillarbox] trait ElementFuture[OUT] extends ResultFuture[OUT] {

  /**
   * The number of the element in this operator, from the operator's first element id, the same for all
   * attempts and after a restore.
   */
  def elementId: Long
}

private[pillarbox] object ElementFuture {

  /** The number of the element that a future of an [[AsyncWaitOperator]] belongs to. */
  def idOf(future: ResultFuture[_]): Long = future.asInstanceOf[ElementFuture[_]].elementId
}
