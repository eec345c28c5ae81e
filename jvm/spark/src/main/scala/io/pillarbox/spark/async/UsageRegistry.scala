package io.pillarbox.spark.async

import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import io.pillarbox.async.AsyncMetrics
import io.pillarbox.metered.budget.BudgetSpent
import org.apache.spark.sql.pillarbox.DriverMessages
import org.slf4j.LoggerFactory

/**
 * The driver's book of what calls have cost: for each operator in each run, an action or a streaming query.
 * It has the calls of tasks that failed, too. Thread-safe.
 *
 * @param say writes the line of an operator at the end of a run
 */
private[pillarbox] final class UsageRegistry(say: String => Unit) extends DriverMessages.UsageReceiver {
  import UsageRegistry._

  private val operators = new JLinkedHashMap[(String, String), OperatorUsage](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[(String, String), OperatorUsage]): Boolean =
      size > MostOperators
  }

  override def onUsage(
      about: Array[String],
      amounts: Array[Double],
      units: Array[String],
      isDone: Boolean
  ): Unit = synchronized {
    val Array(run, operatorId, name, operator, source) = about
    val one = operators.computeIfAbsent((run, operatorId), _ => new OperatorUsage(name, operator))
    one.take(source, Sums.of(amounts, units), isDone)
  }

  override def ended(run: String): Unit = of { case (of, _) => of == run }.foreach(one => say(one.line))

  /** Returns the usage of a streaming query, an object for each of its operators, as `ofOperators` does. */
  def ofQuery(query: String): String = json(of { case (run, _) => run == query })

  /**
   * Returns the usage of these operators over all runs, as a JSON list: "operator" (its name), the counts, and
   * "usage" by unit.
   */
  def ofOperators(operators: Seq[AsyncIOSpec]): String =
    json(operators.distinctBy(_.operatorId).map { spec =>
      of { case (_, id) => id == spec.operatorId }
        .foldLeft(new OperatorUsage(spec.name, spec.operator))(_ + _)
    })

  private def of(wanted: ((String, String)) => Boolean): Seq[OperatorUsage] = synchronized {
    operators.asScala.collect { case (key, one) if wanted(key) => one.copied }.toSeq
  }

  private def json(all: Seq[OperatorUsage]): String =
    new ObjectMapper().writeValueAsString(all.map(_.told).asJava)
}

private[pillarbox] object UsageRegistry {

  /** The driver's; the line is in its log. */
  val ofDriver: UsageRegistry = {
    val log = LoggerFactory.getLogger("io.pillarbox.Usage")
    new UsageRegistry(log.info(_))
  }

  /** The amounts of a task so far, as a report has them: the counts, then those of `usage`. */
  def amounts(metrics: AsyncMetrics, usage: Seq[(String, Double)]): Array[Double] =
    Counts.map { case (_, of) => of(metrics).toDouble }.toArray ++ usage.map(_._2)

  private val Counts: Seq[(String, AsyncMetrics => Long)] = Seq(
    "calls" -> (_.calls),
    "rows" -> (_.calledRows),
    "retries" -> (_.retries),
    "rate_limited" -> (_.rateLimited),
    "from_journal" -> (_.journalHits),
    "shared" -> (_.shared),
    "limit_wait_ms" -> (_.limitWaitNanos / 1000000L)
  )

  /** Operators in runs that are kept; a notebook has a run for each of its actions. */
  private final val MostOperators = 10000

  /** Counts in the order of `Counts`, and amounts by unit. */
  private final case class Sums(counts: Seq[Double], usage: Map[String, Double]) {
    def +(other: Sums): Sums = Sums(
      counts.zip(other.counts).map { case (a, b) => a + b },
      other.usage.foldLeft(usage) { case (all, (unit, more)) =>
        all.updated(unit, BudgetSpent.add(all.getOrElse(unit, 0.0), more))
      }
    )
  }

  private object Sums {
    val Nothing: Sums = Sums(Counts.map(_ => 0.0), Map.empty)

    def of(amounts: Array[Double], units: Array[String]): Sums = {
      val (counts, usage) = amounts.toSeq.splitAt(Counts.size)
      Sums(counts, units.zip(usage).toMap)
    }
  }

  /** The usage of one operator in one run. */
  private final class OperatorUsage(name: String, operator: String) {
    private var ended = Sums.Nothing
    private val running = mutable.HashMap.empty[String, Sums]

    /** Takes the sums of a task, the last of which count. */
    def take(source: String, sums: Sums, isDone: Boolean): Unit =
      if (isDone) {
        running -= source
        ended += sums
      } else running(source) = sums

    private def sums: Sums = running.values.foldLeft(ended)(_ + _)

    /** Returns the same as it is now. */
    def copied: OperatorUsage = new OperatorUsage(name, operator) + this

    /** Returns the sum. */
    def +(other: OperatorUsage): OperatorUsage = {
      val both = new OperatorUsage(name, operator)
      both.ended = ended + other.sums
      both
    }

    private def counts: Seq[(String, Long)] =
      Counts.zip(sums.counts).map { case ((name, _), amount) => name -> amount.toLong }

    private def usage: Seq[(String, Double)] = sums.usage.toSeq.filter(_._2 > 0).sortBy(_._1)

    def told: JMap[String, Any] =
      (Map[String, Any]("operator" -> name, "usage" -> usage.toMap.asJava) ++ counts).asJava

    /** The line of the log. */
    def line: String = {
      val many = counts.toMap
      def part(name: String, what: String) = Option.when(many(name) > 0)(f"${many(name)}%,d $what")
      val waited = many("limit_wait_ms")
      val rows = if (many("rows") == many("calls")) "" else f" for ${many("rows")}%,d rows"
      val parts = Seq(
        Some((if (many("calls") == 1) "1 call" else f"${many("calls")}%,d calls") + rows),
        part("retries", "retries"),
        part("rate_limited", "rate-limited"),
        part("from_journal", "answers from the journal"),
        part("shared", "shared"),
        Option.when(waited > 0)(f"${waited / 1e3}%,.1f s of waiting for limits")
      ).flatten ++ usage.map { case (unit, amount) => f"$amount%,.2f".stripSuffix(".00") + s" $unit" }
      s"$operator: ${parts.mkString(", ")}"
    }
  }
}
