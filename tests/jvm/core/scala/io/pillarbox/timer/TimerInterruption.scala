package io.pillarbox.timer

import io.pillarbox.mailbox.{MailOptions, MailboxExecutor, ThrowingRunnable}

/**
 * When a long round of timers pauses for other mail, and how it goes on.
 *
 * A round fires at least one timer before it pauses, and twice as many each time it has to pause again (up to
 * [[TimerInterruption.MaxBudget]]): other mail is never held back for long, nor can a steady stream of it
 * hold back the timers, which then need only a logarithmic number of pauses to get up to speed.
 */
trait TimerInterruption {

  /** Asked between two timers once the budget of the round is used up. */
  def shouldInterrupt: Boolean

  /** Has `action` run later, after the mail that waits now. Only called after an interruption. */
  def continueLater(action: ThrowingRunnable, description: String): Unit
}

object TimerInterruption {
  final val MaxBudget = 1024

  /** Rounds run to their end. */
  object Never extends TimerInterruption {
    override def shouldInterrupt: Boolean = false
    override def continueLater(action: ThrowingRunnable, description: String): Unit = action.run()
  }

  /** Pauses when mail waits; goes on by a deferrable mail, which no operator's yield takes. */
  def of(executor: MailboxExecutor): TimerInterruption = new TimerInterruption {
    override def shouldInterrupt: Boolean = executor.shouldInterrupt
    override def continueLater(action: ThrowingRunnable, description: String): Unit =
      executor.execute(action, MailOptions.Deferrable, description)
  }
}

/**
 * How many timers a round fires before it asks: doubles with each pause, and starts over after a full round.
 */
private[pillarbox] final class FiringBudget {
  private var budget = 1

  def current: Int = budget

  def paused(): Unit = budget = math.min(budget * 2, TimerInterruption.MaxBudget)

  def finished(): Unit = budget = 1
}
