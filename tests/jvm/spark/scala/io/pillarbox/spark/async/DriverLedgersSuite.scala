package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import io.pillarbox.metered.lease._
import io.pillarbox.metered.limit._
import org.scalatest.funsuite.AnyFunSuite

class DriverLedgersSuite extends AnyFunSuite {
  private var minutes = 0L
  private var reports = 0L
  private def newLedgers = new DriverLedgers(() => TimeUnit.MINUTES.toNanos(minutes))

  private def waiting(pauseNanos: Long = 0L): LeaseReport = {
    reports += 1
    LeaseReport(reports, 0L, 0, 0, isWaiting = true, 0, -1L, pauseNanos)
  }

  test("the rate of a query is kept for its interval, however long nobody makes a call") {
    val hourly = LimitTerms(0, most = 1, intervalNanos = TimeUnit.HOURS.toNanos(1))
    val ledgers = newLedgers
    assert(ledgers.lend("q", hourly, "a", waiting()).amount.amount == 1)
    minutes += 30
    assert(ledgers.lend("q", hourly, "b", waiting()).amount.amount == 0)
    minutes += 40
    assert(ledgers.lend("q", hourly, "c", waiting()).amount.amount == 1)
  }

  test("reports and answers travel as numbers") {
    val use = AmountUse(Double.NaN, Seq(7L -> 1.5, -3L -> 2.0), 0.25, 8.0, 4L, Some(Told(0.5, 9L)))
    val report = LeaseReport(3L, 2L, 1, 1, isWaiting = true, 5, -1L, 6L, use)
    val terms = LimitTerms(4, adaptive = true, most = 0.5, intervalNanos = 60L)
    val (readTerms, read) = LeaseMessages.readReport(LeaseMessages.write(terms, report))
    assert(readTerms == terms && read.toString == report.toString)
    val grant = LeaseGrant(2, 3L, 4L, AmountGrant(1.5, -5L, 6L, 7.5))
    assert(LeaseMessages.readGrant(LeaseMessages.write(grant)) == grant)
    val calls = LimitTerms(4)
    val plain = report.copy(use = AmountUse.NoRate)
    assert(LeaseMessages.readReport(LeaseMessages.write(calls, plain)) == ((calls, plain)))
  }

  test("reports on values of a key travel in one message, and their answers") {
    val use = AmountUse(2.0, Seq(7L -> 1.5), 0.25, 8.0, 4L, None)
    val report = LeaseReport(3L, 2L, 1, 1, isWaiting = true, 5, -1L, 6L, use)
    for (terms <- Seq(LimitTerms(4, most = 0.5, intervalNanos = 60L), LimitTerms(4))) {
      val own = if (terms.hasRate) report else report.copy(use = AmountUse.NoRate)
      val reports = Seq(
        ValueReport(LimitValue(-1L, 5L), 9L, own),
        ValueReport(LimitValue(Long.MaxValue, 0L), 1L, own.copy(number = 8L))
      )
      val message = LeaseMessages.write(terms, reports)
      assert(LeaseMessages.isOfValues(message) && LeaseMessages.readReports(message) == ((terms, reports)))
      assert(!LeaseMessages.isOfValues(LeaseMessages.write(terms, own)))
    }
    val grant = LeaseGrant(2, 3L, 4L, AmountGrant(1.5, -5L, 6L, 7.5))
    val grants = ValueGrants(17L, Seq(Some(grant), None, Some(grant.copy(permits = 0))))
    assert(LeaseMessages.readGrants(LeaseMessages.write(grants)) == grants)
  }

  test("ledgers of values are forgotten at any later report, also of a limit without a key") {
    val perMinute = LimitTerms(0, most = 1, intervalNanos = TimeUnit.MINUTES.toNanos(1))
    val ledgers = newLedgers
    val reports = (1L to 3L).map(value => ValueReport(LimitValue(0, value), value, waiting()))
    assert(ledgers.lend("q", perMinute, "a", reports).grants.flatten.size == 3 && ledgers.size == 3)
    minutes += 60
    assert(ledgers.lend("other", perMinute, "a", waiting()).amount.amount == 1)
    assert(ledgers.size == 1)
  }

  test("each value of a key has a ledger, and a name is in use while one of them counts") {
    val terms = LimitTerms(0, most = 10, intervalNanos = TimeUnit.HOURS.toNanos(1))
    val ledgers = newLedgers
    def lend(value: Long) = {
      val grants = ledgers.lend("q", terms, "a", Seq(ValueReport(LimitValue(0, value), value, waiting())))
      grants.grants.head.get.amount.amount
    }
    assert((1L to 500L).map(lend).forall(_ > 0) && ledgers.size == 500)
    assert(ledgers.isInUse("q") && !ledgers.isInUse("other"))
    minutes += 62
    assert(!ledgers.isInUse("q"))
    ledgers.lend("other", terms, "a", Seq(ValueReport(LimitValue(0, 1), 1, waiting())))
    assert(ledgers.size == 1)
  }

  test("a pause is kept until it is over") {
    val terms = LimitTerms(4, adaptive = true)
    val ledgers = newLedgers
    ledgers.lend("q", terms, "a", waiting(pauseNanos = TimeUnit.HOURS.toNanos(1)))
    minutes += 30
    assert(ledgers.lend("q", terms, "b", waiting()).pauseNanos == TimeUnit.MINUTES.toNanos(30))
  }

  test("what nobody has used for ten minutes is forgotten otherwise") {
    val ledgers = newLedgers
    (1 to 3).foreach(i => ledgers.lend(s"q$i", LimitTerms(4, adaptive = true), "a", waiting()))
    assert(ledgers.size == 3)
    minutes += 10
    ledgers.lend("q", LimitTerms(4), "a", waiting())
    assert(ledgers.size == 1)
  }
}
