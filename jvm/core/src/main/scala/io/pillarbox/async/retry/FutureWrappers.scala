package io.pillarbox.async.retry

import java.util.concurrent.{CompletionException, ExecutionException}

import scala.annotation.tailrec

/** What the JDK's futures wrap an exception in says nothing of it. */
private[pillarbox] object FutureWrappers {

  /** The exception within. */
  @tailrec def unwrapped(problem: Throwable): Throwable = problem match {
    case wrapper @ (_: CompletionException | _: ExecutionException) if wrapper.getCause != null =>
      unwrapped(wrapper.getCause)
    case other => other
  }
}
