package io.pillarbox.spark.async

import java.util.UUID
import java.util.concurrent._

import io.pillarbox.metered.budget._
import io.pillarbox.metered.limit.GateClock
import org.apache.hadoop.fs.FileSystem
import org.apache.hadoop.util.ShutdownHookManager
import org.apache.spark.SparkEnv
import org.apache.spark.sql.pillarbox.DriverMessages

/** Budgets over executors: the driver's ledgers, and the executors' way to them. Thread-safe. */
private[pillarbox] object BudgetLedgers extends DriverMessages.Spender {

  val onDriver: DriverBudgets = new DriverBudgets(() => System.nanoTime(), writer())

  val ofProcess: ExecutorBudgets = new ExecutorBudgets(() => System.nanoTime(), part(_, _))

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

  private def part(key: String, terms: BudgetTerms): BudgetPart = {
    // A name for each part, since each numbers its reports.
    val process = s"${SparkEnv.get.executorId}-${UUID.randomUUID()}"
    new BudgetPart(
      terms,
      GateClock.System,
      (report, answer) =>
        DriverMessages.spend(key, process, write(report))(grant => answer(readGrant(terms.units, grant)))
    )
  }

  override def spend(key: String, process: String, message: Array[Double])(
      reply: Array[Double] => Unit
  ): Unit =
    onDriver.spend(key, process, readReport(message)) { grant =>
      reply(if (grant == null) Array.emptyDoubleArray else write(grant))
    }

  override def applicationBegins(): Unit = onDriver.clear()

  /** What was granted and not used is given back when this process ends, before its file systems are closed. */
  lazy val settledAtExit: Unit =
    ShutdownHookManager.get.addShutdownHook(() => onDriver.settle(), FileSystem.SHUTDOWN_HOOK_PRIORITY + 10)

  override def ended(run: String): Unit = onDriver.ended(run)

  private def write(report: BudgetReport): Array[Double] = Array(
    report.number.toDouble,
    report.wanted.toDouble,
    if (report.isWaiting) 1.0 else 0.0,
    report.underWay.toDouble
  ) ++ report.ceiling ++ write(report.spent)

  private def readReport(m: Array[Double]): BudgetReport = {
    val units = (m.length - ReportHead - SpentHead) / 4
    BudgetReport(
      m(0).toLong,
      m(1).toLong,
      m(2) == 1.0,
      m(3).toLong,
      m.slice(ReportHead, ReportHead + units).toIndexedSeq,
      readSpent(units, m.drop(ReportHead + units))
    )
  }

  private def write(grant: BudgetGrant): Array[Double] =
    Array(grant.over.toDouble, grant.failuresLeft.toDouble) ++ grant.ceiling ++ write(grant.spent)

  private def readGrant(units: Int, m: Array[Double]): BudgetGrant = BudgetGrant(
    m(0).toInt,
    m.slice(GrantHead, GrantHead + units).toIndexedSeq,
    readSpent(units, m.drop(GrantHead + units)),
    m(1).toLong
  )

  private def write(spent: BudgetSpent): Array[Double] =
    Array(spent.rows.toDouble, spent.failed.toDouble) ++ spent.amounts ++ spent.reported ++
      spent.reports.map(_.toDouble)

  private def readSpent(units: Int, m: Array[Double]): BudgetSpent = {
    def part(number: Int) = m.slice(SpentHead + number * units, SpentHead + (number + 1) * units).toIndexedSeq
    BudgetSpent(m(0).toLong, m(1).toLong, part(0), part(1), part(2).map(_.toLong))
  }

  private final val IdleMs = 1000L
  private final val ReportHead = 4
  private final val GrantHead = 2
  private final val SpentHead = 2
}
