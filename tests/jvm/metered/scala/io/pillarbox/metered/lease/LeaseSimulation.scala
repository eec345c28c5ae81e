package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import scala.annotation.unused
import scala.util.Random

import io.pillarbox.metered.limit._

/**
 * How a limit that is lent grows with the number of processes, in simulated time: prints, for each limit and
 * number, the reports that the lender hears a second, the share of the limit that is used in the last minutes,
 * and the time that a report takes. Fails if a limit is exceeded. `benchmarks/leases.py` makes a page of it.
 */
object LeaseSimulation {
  private val Minute = TimeUnit.MINUTES.toNanos(1)
  private final val WarmUpMs = 60000L
  private final val EndMs = 4 * 60000L

  /** @param amounts what a call uses; it is charged with up to twice as much */
  private final case class Case(name: String, terms: LimitTerms, isOfUse: Boolean, amounts: Random => Double)

  private val cases = Seq(
    Case("600 calls a minute", LimitTerms(0, most = 600, intervalNanos = Minute), isOfUse = false, _ => 1),
    Case(
      "1 M tokens a minute",
      LimitTerms(0, most = 1e6, intervalNanos = Minute),
      isOfUse = true,
      100.0 + _.nextInt(900)
    ),
    Case("50 calls a second", LimitTerms(0, most = 50, intervalNanos = Minute / 60), isOfUse = false, _ => 1)
  )

  def main(@unused arguments: Array[String]): Unit =
    for {
      one <- cases
      processes <- Seq(1, 10, 100, 1000)
    } {
      val run = new Run(one, processes)
      println(
        f"| ${one.name} | $processes%,d | ${run.reportsASecond}%,.0f | ${run.share * 100}%.1f %% | " +
          f"${run.reportMicros}%.1f |"
      )
    }

  private final class Run(one: Case, processes: Int) {
    private val clock = new SimulatedClock
    private val random = new Random(processes)
    private val ledger = new LeaseLedger(one.terms)
    private val oracle = new UsageOracle(clock)
    private var reports, nanos = 0L
    private var warmUp = 0.0

    (1 to processes).foreach(number => clock.in(random.nextInt(1000).toLong)(start(number)))
    clock.run(WarmUpMs)
    warmUp = oracle.total
    reports = 0
    nanos = 0
    clock.run(EndMs)
    oracle.check(one.terms.most, one.terms.intervalNanos)

    def reportsASecond: Double = reports * 1000.0 / (EndMs - WarmUpMs)
    def reportMicros: Double = nanos / 1000.0 / reports
    def share: Double =
      (oracle.total - warmUp) / (one.terms.most * (EndMs - WarmUpMs) * 1e6 / one.terms.intervalNanos)

    private def start(number: Int): Unit = {
      val lent = new LentLimit(one.terms, Overload.Default, clock, report(number.toString))
      val gate = Limiter.ofUnits(Seq(lent -> (if (one.isOfUse) 0 else Limiter.Calls)))
      (1 to math.max(20, 400 / processes)).foreach(_ => next(gate))
    }

    private def report(process: String)(report: LeaseReport, answer: LeaseGrant => Unit): Unit =
      clock.in(1L + random.nextInt(3)) {
        reports += 1
        val before = System.nanoTime()
        val grant = ledger.report(process, report, clock.nanoTime)
        nanos += System.nanoTime() - before
        if (grant != null) clock.in(1L + random.nextInt(3))(answer(grant))
      }

    private def next(gate: Limiter): Unit = {
      val used = one.amounts(random)
      val charged = if (one.isOfUse) used * (1 + random.nextDouble()) else 1.0
      val waiter: CallWaiter = new CallWaiter {
        @volatile override var permit: Permit = _
        override def estimate(limit: Int): Double = charged
        override def run(): Unit = call(gate, permit, charged, used)
      }
      if (gate.tryAcquire(waiter)) waiter.run()
    }

    private def call(gate: Limiter, taken: Permit, charged: Double, used: Double): Unit = {
      val permit = if (taken == null) gate else taken
      val start = clock.nanoTime
      clock.in(500L + random.nextInt(1500)) {
        oracle.add(start, charged, used, clock.nanoTime)
        permit.used(_ => used)
        permit.release()
        next(gate)
      }
    }
  }
}
