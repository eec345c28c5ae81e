package io.pillarbox.async.retry

import java.util.concurrent.{CompletionException, ExecutionException}

import scala.annotation.tailrec

/** Takes exceptions out of the wrappers of the JDK's futures. */
private[pillarbox] object FutureWrappers {

  /** Returns the exception within. */
  @tailrec def unwrapped(problem: Throwable): Throwable = problem match {
    case wrapper @ (_: CompletionException | _: ExecutionException) if wrapper.getCause != null =>
      unwrapped(wrapper.getCause)
    case other => other
  }
}
