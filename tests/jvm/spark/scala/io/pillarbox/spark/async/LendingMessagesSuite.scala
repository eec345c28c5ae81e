package io.pillarbox.spark.async

import io.pillarbox.metered.budget.{BudgetGrant, BudgetReport, BudgetSpent}
import io.pillarbox.metered.lease._
import io.pillarbox.metered.limit.{Feedback, LimitTerms}
import org.scalatest.funsuite.AnyFunSuite

class LendingMessagesSuite extends AnyFunSuite {
  private val returned = Seq(Returned(7L, 1.5, isOver = true), Returned(9L, 2.0, isOver = false))
  private val use = AmountUse(2.5, returned, 0.25, 8.0, 4L, Some(Feedback(0.5, 9L)))
  private val terms = LimitTerms(4, adaptive = true, most = 0.5, intervalNanos = 60L)
  private val value = LimitValue(Long.MaxValue, -5L)
  private val report =
    LimitReport(Some(value), terms, 3L, 2L, 1, 1, isWaiting = true, 5, -1L, 6L, use)
  private val spent = BudgetSpent(5, 2, Vector(1.5, 2.5), Vector(0.5, 1e300), Vector(7L, 8L))

  test("reports travel as numbers") {
    val plain = report.copy(value = None, terms = LimitTerms(4), use = AmountUse.NoRate)
    val ofBudget = BudgetReport(3L, 16L, isWaiting = true, 2L, Vector(4.5, 1e300), spent)
    def read(one: Report) = LendingMessages.read("name", LendingMessages.write(Sent("name", 12L, one)))
    val unknown = report.copy(use = use.copy(returned = Nil, told = None))
    for (one <- Seq(report, unknown, plain, ofBudget)) assert(read(one) == Sent("name", 12L, one))
    val ofMean = read(report.copy(use = use.copy(first = Double.NaN))).report.asInstanceOf[LimitReport]
    assert(ofMean.use.first.isNaN)
  }

  test("so do their answers, of each report one or none") {
    val grant = LimitGrant(2, 3L, 4L, AmountGrant(1.5, 6L, 7.5))
    val ofBudget = BudgetGrant(-1, Vector(4.5, 1e300), spent, 9L)
    val grants = Grants(17L, Seq(Some(grant), None, Some(grant.copy(permits = 0)), Some(ofBudget)))
    assert(LendingMessages.read(LendingMessages.write(grants)) == grants)
  }
}
