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
    private val network = new Network(processes, longestDelayMs = 3)
    import network.{clock, oracle, random}

    (1 to processes).foreach(_ => clock.in(random.nextInt(1000).toLong)(start()))
    clock.run(WarmUpMs)
    private val warmUp = oracle.total
    network.reports = 0
    network.driverNanos = 0
    clock.run(EndMs)
    oracle.check(one.terms.most, one.terms.intervalNanos)

    def reportsASecond: Double = network.reports * 1000.0 / (EndMs - WarmUpMs)
    def reportMicros: Double = network.driverNanos / 1000.0 / network.reports
    def share: Double =
      (oracle.total - warmUp) / (one.terms.most * (EndMs - WarmUpMs) * 1e6 / one.terms.intervalNanos)

    private def start(): Unit = {
      val caller = network.caller(one.terms, if (one.isOfUse) 0 else Limiter.Calls)
      caller.lastsMs = () => 500L + random.nextInt(1500)
      if (one.isOfUse) {
        caller.estimate = () => one.amounts(random) * (1 + random.nextDouble())
        caller.used = charged => charged / (1 + random.nextDouble())
      }
      caller.ask(Int.MaxValue, math.max(20, 400 / processes))
    }
  }
}
