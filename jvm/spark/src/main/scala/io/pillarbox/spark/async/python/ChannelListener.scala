package io.pillarbox.spark.async.python

/** Receives what the worker sends over a [[PythonChannel]]. Called on the channel's reader thread. */
private[pillarbox] trait ChannelListener {

  /** Receives the answers of calls that succeeded. */
  def onResults(results: CallResults): Unit

  /** Receives the failure of one call. */
  def onFailure(elementId: Long, attempt: Int, failure: PythonCallException): Unit

  /** Receives the reason why the worker can't go on. Called at most once, as the last call. */
  def onFatal(cause: Throwable): Unit
}
