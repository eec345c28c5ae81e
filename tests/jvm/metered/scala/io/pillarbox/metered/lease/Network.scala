package io.pillarbox.metered.lease

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.api.AsyncTimeoutException
import io.pillarbox.metered.budget.{BudgetAllocator, BudgetReport, BudgetSpent, BudgetTerms}
import io.pillarbox.metered.limit._

/**
 * Processes and a driver that lends, in simulated time. Messages are lost, late and out of order, and
 * processes die.
 *
 * @param lost of 100 messages, so many, each way
 */
final class Network(seed: Int, lost: Int = 0, longestDelayMs: Int = 2) {
  val random = new Random(seed)
  val clock = new SimulatedClock
  val processes = mutable.Buffer.empty[Process]
  var isReachable = true
  var messages, reports = 0

  /** The time, by the machine's clock, that the driver took for reports on limits. */
  var driverNanos = 0L

  /** The driver's limits; a new one has forgotten all. */
  var lender: Lender = newLender()

  /** The driver's budget, and what was written of it before the last answer. */
  var budget: BudgetAllocator = _
  var written: BudgetSpent = _
  private var count = 0

  def newLender(): Lender = new Lender(() => clock.nanoTime)

  def add(): Process = {
    count += 1
    processes += new Process(s"executor $count")
    processes.last
  }

  def run(ms: Long): Unit = clock.run(clock.nowMs + ms)

  /** One of the processes, if there is any. */
  def any(): Option[Process] =
    if (processes.isEmpty) None else Some(processes(random.nextInt(processes.size)))

  /** A budget that begins with what was written. */
  def begin(terms: BudgetTerms, spent: BudgetSpent): Unit = {
    budget = new BudgetAllocator(terms)
    budget.begin("query", spent)
    written = spent
  }

  private def travel(message: => Unit): Unit =
    if (isReachable && random.nextInt(100) >= lost)
      clock.in(random.nextInt(longestDelayMs + 1).toLong)(message)

  private def answer(process: String, sent: Seq[Sent], to: BudgetAllocator): Grants = sent match {
    case Seq(Sent(_, part, report: BudgetReport)) =>
      val grant = if (to eq budget) to.report("query", s"$process/$part", report, clock.nanoTime) else null
      if (grant != null) written = budget.charged("query")
      Grants(0L, Seq(Option(grant)))
    case ofLimits =>
      val before = System.nanoTime()
      try lender.report(process, ofLimits)
      finally driverNanos += System.nanoTime() - before
  }

  final class Process(name: String) {
    var isAlive = true

    val borrower = new Borrower(
      clock,
      (sent, receive) =>
        if (isAlive) {
          val to = budget
          travel {
            messages += 1
            reports += sent.size
            val grants = answer(name, sent, to)
            travel(if (isAlive) receive(grants))
          }
        }
    )

    def limit(terms: LimitTerms, value: Option[LimitValue] = None): LentLimit =
      new LentLimit(LimitKey("limit", value), terms, Overload.Default, clock, borrower)

    /** It goes with all of its calls, and nobody is told. */
    def die(): Unit = {
      isAlive = false
      processes -= this
    }
  }

  /** What calls have used, counted by nobody who limits it; those of processes that have died, too. */
  val oracle = new UsageOracle(clock)
  private val callers = mutable.Buffer.empty[Caller]

  /** The most calls that were under way at a time in processes that lived. */
  var most = 0

  /** A process that makes calls under a limit of calls; `unit` is 0 for one of amounts. */
  def caller(terms: LimitTerms, unit: Int = Limiter.Calls): Caller = {
    callers += new Caller(add(), terms, unit)
    callers.last
  }

  def living: Seq[Caller] = callers.toSeq.filter(_.process.isAlive)

  def anyLiving(): Option[Caller] = Option.when(living.nonEmpty)(living(random.nextInt(living.size)))

  final class Caller(val process: Process, terms: LimitTerms, unit: Int) {
    val limit: LentLimit = process.limit(terms)
    private val limiter = Limiter.ofUnits(Seq(limit -> unit))
    var lastsMs: () => Long = () => 5L + random.nextInt(50)
    var estimate: () => Double = () => if (unit == Limiter.Calls) 1.0 else random.nextInt(60).toDouble
    var used: Double => Double = identity
    var isBorne: () => Boolean = () => true
    var started, done, underWay = 0
    private var wanted = 0

    /** Makes so many calls, `atOnce` at a time. */
    def ask(calls: Int, atOnce: Int): Unit = {
      wanted = calls
      (1 to atOnce).foreach(_ => next())
    }

    private def next(): Unit = if (process.isAlive && wanted > 0) {
      wanted -= 1
      val amount = estimate()
      val waiter: CallWaiter = new CallWaiter {
        @volatile override var permit: Permit = _
        override def estimate(limit: Int): Double = amount
        override def run(): Unit = if (process.isAlive) begin(permit, amount)
      }
      if (limiter.tryAcquire(waiter)) waiter.run()
    }

    private def begin(permit: Permit, estimate: Double): Unit = {
      started += 1
      underWay += 1
      most = math.max(most, living.iterator.map(_.underWay).sum)
      val start = clock.nanoTime
      val amount = used(if (estimate.isNaN) random.nextInt(60).toDouble else estimate)
      val error = if (isBorne()) null else AsyncTimeoutException.attempt(1, 1)
      clock.in(lastsMs()) {
        oracle.add(start, if (estimate.isNaN) amount else estimate, amount, clock.nanoTime)
        underWay -= 1
        done += 1
        if (process.isAlive) {
          permit.observe(start, error)
          permit.used(_ => amount)
          permit.release()
          next()
        }
      }
    }
  }
}
