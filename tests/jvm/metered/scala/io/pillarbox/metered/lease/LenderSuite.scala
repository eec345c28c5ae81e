package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import io.pillarbox.metered.limit.LimitTerms
import org.scalatest.funsuite.AnyFunSuite

/** What the driver remembers of limits. */
class LenderSuite extends AnyFunSuite {
  private val hourly = LimitTerms(0, most = 1, intervalNanos = TimeUnit.HOURS.toNanos(1))
  private val adaptive = LimitTerms(4, adaptive = true)
  private var minutes = 0L
  private var reports = 0L
  private def newLender = new Lender(() => TimeUnit.MINUTES.toNanos(minutes))

  private def waiting(name: String, terms: LimitTerms, value: Option[Long] = None, pauseNanos: Long = 0L) = {
    reports += 1
    val of = value.map(LimitValue(0, _))
    Sent(name, reports, LimitReport(of, terms, reports, 0L, 0, 0, isWaiting = true, 0, -1L, pauseNanos))
  }

  private def lend(lender: Lender, process: String, sent: Sent) =
    lender.report(process, Seq(sent)).grants.head.get.asInstanceOf[LimitGrant]

  test("the rate of a query is kept for its interval, however long nobody makes a call") {
    val lender = newLender
    assert(lend(lender, "a", waiting("q", hourly)).amount.amount == 1)
    minutes += 30
    assert(lend(lender, "b", waiting("q", hourly)).amount.amount == 0)
    minutes += 40
    assert(lend(lender, "c", waiting("q", hourly)).amount.amount == 1)
  }

  test("limits of values are forgotten at any later report, also on a limit without a key") {
    val perMinute = hourly.copy(intervalNanos = TimeUnit.MINUTES.toNanos(1))
    val lender = newLender
    val sent = (1L to 3L).map(value => waiting("q", perMinute, Some(value)))
    assert(lender.report("a", sent).grants.flatten.size == 3 && lender.size == 3)
    minutes += 60
    assert(lend(lender, "a", waiting("other", perMinute)).amount.amount == 1)
    assert(lender.known("q").isEmpty)
  }

  test("each value of a key is lent by itself, and a name is in use while one of them counts") {
    val terms = hourly.copy(most = 10)
    val lender = newLender
    def amount(value: Long) = lend(lender, "a", waiting("q", terms, Some(value))).amount.amount
    assert((1L to 500L).map(amount).forall(_ > 0) && lender.size == 500)
    assert(lender.isInUse("q") && !lender.isInUse("other"))
    minutes += 62
    assert(!lender.isInUse("q") && lender.size == 0)
  }

  test(
    "what is lent lasts until the process may send its next message, also where few of many use the limit"
  ) {
    val lender = newLender
    (1 to 200).foreach(n => lend(lender, s"p$n", waiting("all", hourly)))
    val perSecond = LimitTerms(0, most = 1000, intervalNanos = TimeUnit.SECONDS.toNanos(1))
    val answer = lender.report("p1", Seq(waiting("own", perSecond)))
    val grant = answer.grants.head.get.asInstanceOf[LimitGrant]
    assert(answer.gapNanos == TimeUnit.MILLISECONDS.toNanos(100))
    assert(grant.reportNanos >= answer.gapNanos && grant.amount.lifeNanos >= 2 * answer.gapNanos)
  }

  test("processes that have gone do not slow down others") {
    val lender = newLender
    (1 to 4000).foreach(n => lend(lender, s"p$n", waiting("all", hourly)))
    minutes += 1
    lend(lender, "another", waiting("all", hourly)): Unit
    assert(lender.report("another", Seq(waiting("all", hourly))).gapNanos < TimeUnit.MILLISECONDS.toNanos(1))
  }

  test("a pause is kept until it is over") {
    val lender = newLender
    lend(lender, "a", waiting("q", adaptive, pauseNanos = TimeUnit.HOURS.toNanos(1)))
    minutes += 30
    assert(lend(lender, "b", waiting("q", adaptive)).pauseNanos == TimeUnit.MINUTES.toNanos(30))
  }

  test("what nobody has used for ten minutes is forgotten otherwise") {
    val lender = newLender
    (1 to 3).foreach(i => lend(lender, "a", waiting(s"q$i", adaptive)))
    assert(lender.size == 3)
    minutes += 10
    assert(lender.size == 0)
  }
}
