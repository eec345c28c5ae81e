package io.pillarbox.metered.lease

import io.pillarbox.metered.budget.{BudgetGrant, BudgetPart, BudgetReport, BudgetTerms}
import io.pillarbox.metered.limit._

/** Parts of what is lent, whose single reports a test answers: now, later or never. */
object TestLending {

  def part(terms: BudgetTerms, clock: LimitClock)(
      send: (BudgetReport, BudgetGrant => Unit) => Unit
  ): BudgetPart = new BudgetPart("", terms, clock, borrower(clock, send))

  def limit(terms: LimitTerms, clock: LimitClock)(
      send: (LimitReport, LimitGrant => Unit) => Unit
  ): LentLimit = new LentLimit(LimitKey(""), terms, Overload.Default, clock, borrower(clock, send))

  private def borrower[R <: Report, G <: Grant](clock: LimitClock, send: (R, G => Unit) => Unit) = {
    val prompt = new LimitClock {
      override def nanoTime: Long = clock.nanoTime
      override def schedule(delayNanos: Long, task: Runnable): Unit =
        if (delayNanos > 0) clock.schedule(delayNanos, task) else task.run()
    }
    new Borrower(
      prompt,
      (sent, answer) =>
        sent.foreach(one => send(one.report.asInstanceOf[R], grant => answer(Grants(0L, Seq(Option(grant))))))
    )
  }
}
