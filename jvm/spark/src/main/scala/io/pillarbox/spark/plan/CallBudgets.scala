package io.pillarbox.spark.plan

import java.io.IOException

import scala.util.control.NonFatal

import io.pillarbox.spark.async._
import io.pillarbox.spark.base.FailureReport
import io.pillarbox.spark.task.ReportedException
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pillarbox.{MicroBatch, MicroBatches, RunningQuery, SparkAdapter}

/**
 * Opens the budgets of operators. On the driver, when the operator is about to run.
 *
 * A budget is that of a streaming query, with what its `foreachBatch` runs, or of an action of a batch; one
 * with a name is that of the application. What a query has spent is kept in its checkpoint, unless the budget
 * has a folder: then it is that of all that name the folder.
 */
private object CallBudgets {
  private val log = org.slf4j.LoggerFactory.getLogger(getClass)

  /**
   * Returns the key by which executors ask for the operator's budget; None if it has none.
   *
   * @param batch the micro-batch that the operator runs in, if it is in a streaming query
   */
  def open(spec: AsyncIOSpec, session: SparkSession, batch: Option[MicroBatch]): Option[String] =
    spec.budget.map { budget =>
      val (account, store) = (budget.keep, MicroBatches.runningQuery(session)) match {
        case (Some(folder), _) => inFolder(spec, folder, session)
        case (None, Some(query)) => inQuery(spec, budget, query, session, batch)
        case (None, None) => (ofAction(spec, budget, session), None)
      }
      opened(spec, account, budget, store).foreach { other =>
        val told = Seq("name" -> budget.name.orElse(budget.keep).getOrElse(""), "other" -> other)
        throw new ReportedException(FailureReport.of("BUDGETS_DIFFER", spec.operator, told: _*))
      }
      account.key
    }

  private def opened(
      spec: AsyncIOSpec,
      account: BudgetAccount,
      budget: BudgetSpec,
      store: Option[BudgetStore]
  ): Option[String] =
    try Lending.budgets.open(account, spec.operator, budget.terms, store)
    catch { case problem: IOException => throw notKept(spec, problem) }

  private def notKept(spec: AsyncIOSpec, problem: Throwable) = {
    log.warn(s"What the budget of ${spec.operator} has spent can't be read", problem)
    new ReportedException(FailureReport.of(BudgetSpec.NotKept, spec.operator), problem)
  }

  /** That of all drivers that name the folder. Queries keep nothing of it in their checkpoints. */
  private def inFolder(spec: AsyncIOSpec, folder: String, session: SparkSession) =
    try {
      val conf = SparkAdapter.hadoopConf(session)
      val path = new Path(folder)
      val whole = path.getFileSystem(conf).makeQualified(path)
      Lending.settledAtExit
      val account = BudgetAccount(s"kept $whole", "own", session.sparkContext.applicationId, isShared = true)
      (account, Some(new FolderBudget(whole, conf)))
    } catch { case NonFatal(problem) => throw notKept(spec, problem) }

  private def inQuery(
      spec: AsyncIOSpec,
      budget: BudgetSpec,
      query: RunningQuery,
      session: SparkSession,
      batch: Option[MicroBatch]
  ) = {
    val place = CallIdentity.placeInQuery(spec, batch)
    val own = s"${query.id} $place"
    val folder = new Path(query.checkpoint, CheckpointBudget.Folder)
    val store = new CheckpointBudget(folder, place, SparkAdapter.hadoopConf(session))
    (account(budget, own, query.run), Some(store))
  }

  private def ofAction(spec: AsyncIOSpec, budget: BudgetSpec, session: SparkSession) = {
    val context = session.sparkContext
    // In local mode this process goes on to the next application.
    if (budget.name.isDefined) account(budget, "batch", context.applicationId)
    else account(budget, spec.operatorId, MicroBatches.action(context).getOrElse(""))
  }

  private def account(budget: BudgetSpec, own: String, run: String) = BudgetAccount(
    budget.name.fold(s"$own $run")(name => s"named $name"),
    own,
    run,
    isShared = budget.name.isDefined
  )
}
