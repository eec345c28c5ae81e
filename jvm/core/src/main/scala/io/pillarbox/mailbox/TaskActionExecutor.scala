package io.pillarbox.mailbox

/**
 * Wraps the run of every mail of one sender, for example to set a context around it.
 *
 * Called on the mailbox thread. It must run the action exactly once, on the calling thread, and let its
 * exception through.
 */
private[pillarbox] trait TaskActionExecutor {
  @throws[Exception]
  def run(action: ThrowingRunnable): Unit
}

private[pillarbox] object TaskActionExecutor {

  /** Runs the action and does nothing else. */
  val Immediate: TaskActionExecutor = (action: ThrowingRunnable) => action.run()
}
