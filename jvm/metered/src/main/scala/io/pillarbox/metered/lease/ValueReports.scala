package io.pillarbox.metered.lease

import java.util

import io.pillarbox.metered.limit._

/**
 * A report of a process on one value of a limit's key.
 *
 * @param gate the number of the gate in its process, since each numbers its reports
 */
private[pillarbox] final case class ValueReport(value: LimitValue, gate: Long, report: LeaseReport)

/**
 * The answer to a message.
 *
 * @param gapNanos the shortest time between two messages of the process
 * @param grants those of the reports, in their order; none where a later report has overtaken one
 */
private[pillarbox] final case class ValueGrants(gapNanos: Long, grants: Seq[Option[LeaseGrant]])

/**
 * A process's way to the lender for all values of one limit: what their gates report meanwhile goes into one
 * message, and the lender says how often. Thread-safe.
 *
 * @param send sends a message to the lender, and answers on any thread, or never. Must not block
 */
private[pillarbox] final class ValueReports(
    terms: LimitTerms,
    overload: Overload,
    clock: LimitClock,
    send: (Seq[ValueReport], ValueGrants => Unit) => Unit
) {
  import ValueReports._

  private val waiting = new util.ArrayDeque[(ValueReport, LeaseGrant => Unit)]
  private var isArmed = false
  private var gap = 0L
  private var hasSent = false
  private var sentNanos = 0L
  private var gates = 0L

  /** Returns the process's part in the limit of a value. */
  def part(value: LimitValue, breaker: Breaker = null): LentLimit = {
    val number = synchronized {
      gates += 1
      gates
    }
    new LentLimit(
      terms,
      overload,
      clock,
      (report, answer) => add(ValueReport(value, number, report), answer),
      breaker
    )
  }

  private def add(report: ValueReport, answer: LeaseGrant => Unit): Unit = synchronized {
    waiting.addLast((report, answer))
    arm()
  }

  private def arm(): Unit = if (!isArmed) {
    isArmed = true
    val left = if (hasSent) math.max(0L, sentNanos + gap - clock.nanoTime) else 0L
    clock.schedule(left, () => flush())
  }

  private def flush(): Unit = {
    val sent = synchronized {
      isArmed = false
      hasSent = true
      sentNanos = clock.nanoTime
      val sent = Seq.fill(math.min(waiting.size, MostReports))(waiting.pollFirst())
      if (!waiting.isEmpty) arm()
      sent
    }
    send(sent.map(_._1), answers => taken(sent.map(_._2), answers))
  }

  private def taken(gates: Seq[LeaseGrant => Unit], answers: ValueGrants): Unit = {
    synchronized { gap = answers.gapNanos }
    gates.zip(answers.grants).foreach { case (gate, grant) => grant.foreach(gate) }
  }
}

private object ValueReports {

  /** More than that wait for the next message. */
  private final val MostReports = 1000
}
