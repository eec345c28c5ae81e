package io.pillarbox.spark.async

import java.util.UUID
import java.util.concurrent._

import io.pillarbox.metered.budget._
import io.pillarbox.metered.lease._
import io.pillarbox.metered.limit._
import org.apache.hadoop.fs.FileSystem
import org.apache.hadoop.util.ShutdownHookManager
import org.apache.spark.SparkEnv
import org.apache.spark.sql.pillarbox.DriverMessages

/** What the driver lends to executors: limits and budgets, and the executors' way to them. Thread-safe. */
private[pillarbox] object Lending extends DriverMessages.Lender {
  private val limits = new Lender(() => System.nanoTime())

  val budgets: DriverBudgets = new DriverBudgets(() => System.nanoTime(), writer())

  /** The parts of budgets in this executor. */
  val ofProcess: ExecutorBudgets = new ExecutorBudgets(
    () => System.nanoTime(),
    (key, terms) => new BudgetPart(key, terms, LimitClock.System, borrower)
  )

  /** One for this process, whatever its tasks use of the driver's. */
  private lazy val borrower: Borrower = {
    val process = s"${SparkEnv.get.executorId}-${UUID.randomUUID()}"
    new Borrower(
      LimitClock.System,
      (sent, answer) =>
        DriverMessages.lend(process, sent.map(_.name).toArray, sent.map(LendingMessages.write).toArray) {
          grants => answer(LendingMessages.read(grants))
        }
    )
  }

  /** Returns this executor's part in a limit. */
  def borrow(key: LimitKey, terms: LimitTerms, breaker: Breaker): Limit =
    new LentLimit(key, terms, ServiceOverload, LimitClock.System, borrower, breaker)

  /** One thread, which ends when there has been nothing to write for a while. */
  private def writer(): ExecutorService = {
    val writer =
      new ThreadPoolExecutor(1, 1, IdleMs, TimeUnit.MILLISECONDS, new LinkedBlockingQueue, newThread)
    writer.allowCoreThreadTimeOut(true)
    writer
  }

  private def newThread: ThreadFactory = { task =>
    val thread = new Thread(task, "pillarbox budgets")
    thread.setDaemon(true)
    thread
  }

  override def lend(process: String, names: Array[String], reports: Array[Array[Long]])(
      reply: Array[Long] => Unit
  ): Unit = {
    val sent = names.toSeq.zip(reports).map { case (name, report) => LendingMessages.read(name, report) }
    sent match {
      case Seq(Sent(account, part, report: BudgetReport)) =>
        budgets.spend(account, s"$process/$part", report) { grant =>
          reply(LendingMessages.write(Grants(0L, Seq(Option(grant)))))
        }
      case ofLimits => reply(LendingMessages.write(limits.report(process, ofLimits)))
    }
  }

  /** True if what was used of a limit still counts. On the driver. */
  def isInUse(name: String): Boolean = limits.isInUse(name)

  override def applicationBegins(): Unit = budgets.clear()

  /** What was granted and not used is given back when this process ends, before its file systems are closed. */
  lazy val settledAtExit: Unit =
    ShutdownHookManager.get.addShutdownHook(() => budgets.settle(), FileSystem.SHUTDOWN_HOOK_PRIORITY + 10)

  override def ended(run: String): Unit = budgets.ended(run)

  private final val IdleMs = 1000L
}
