package io.pillarbox.mailbox

/**
 * One action for the mailbox thread. A mail is put into one mailbox, once: it is itself the node of the
 * queue.
 *
 * @param priority the priority of the executor that sends it, by which takers filter: a downstream operator's
 *   is higher, the task's own is [[TaskMailbox.MinPriority]]
 * @param description for logs and errors
 * @param isUrgent true if it runs before all ordinary mail that is not yet in a batch; for control mail only
 */
private[pillarbox] final class Mail(
    command: ThrowingRunnable,
    val priority: Int,
    val description: String,
    val isUrgent: Boolean = false
) {
  private[mailbox] var next: Mail = _

  /** The number of mails in the inbox from this one down. Lets `size` answer without a walk. */
  private[mailbox] var depth: Int = 0

  /** When it was put, by `System.nanoTime`, if this mail was picked to measure latency; otherwise 0. */
  private[mailbox] var putNanos: Long = 0L

  /** Runs the command on the calling thread, which must be the mailbox thread. */
  @throws[Exception]
  def run(): Unit = command.run()

  override def toString: String =
    description + (if (isUrgent) " (urgent" else " (ordinary") + s", priority $priority)"
}

/** An action that may throw anything; what it throws is never swallowed by the mailbox that runs it. */
private[pillarbox] trait ThrowingRunnable {
  @throws[Exception]
  def run(): Unit
}
