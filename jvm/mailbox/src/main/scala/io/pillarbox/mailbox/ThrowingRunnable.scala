package io.pillarbox.mailbox

/** An action that may throw anything; what it throws is never swallowed by the mailbox that runs it. */
private[pillarbox] trait ThrowingRunnable {
  @throws[Exception]
  def run(): Unit
}
