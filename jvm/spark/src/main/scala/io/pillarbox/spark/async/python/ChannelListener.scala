package io.pillarbox.spark.async.python

/** Where a [[PythonChannel]] delivers what the worker says. Called on the channel's reader thread. */
private[pillarbox] trait ChannelListener {

  /** Answers of calls that ended well. */
  def onResults(results: CallResults): Unit

  /** One call that failed. */
  def onFailure(elementId: Long, attempt: Int, failure: PythonCallException): Unit

  /** The worker can't go on, or is gone. Called at most once, and nothing after it. */
  def onFatal(cause: Throwable): Unit
}
