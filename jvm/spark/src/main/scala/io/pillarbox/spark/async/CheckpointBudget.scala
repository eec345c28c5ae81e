package io.pillarbox.spark.async

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8

import com.fasterxml.jackson.core.JsonProcessingException
import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import io.pillarbox.metered.budget.{BudgetSpent, BudgetTerms}
import io.pillarbox.spark.checkpoint.StateFiles
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * What an operator has spent, in a file of the query's checkpoint. Each writing makes a file with the next
 * number and then deletes the one before, so that there is always a whole one.
 *
 * @param name the operator's place in the query
 * @param left the number of files that are not deleted
 */
private[pillarbox] final class CheckpointBudget(
    folder: Path,
    name: String,
    conf: Configuration,
    left: Int = 1
) extends BudgetStore {
  import CheckpointBudget._

  private val files = StateFiles.in(folder, conf)
  private val numbered = s"${java.util.regex.Pattern.quote(name)}\\.(\\d{1,18})\\.json".r

  /** The number of the newest file; 0 for none. */
  private lazy val first: Long = numbers.maxOption.getOrElse(0L)
  private var last = -1L
  private var content: ObjectNode = mapper.createObjectNode()

  override def path: String = new Path(folder, name).toString

  private def numbers: Seq[Long] = files.list().collect { case numbered(number) => number.toLong }

  private def file(number: Long) = s"$name.$number.json"

  override def read(terms: BudgetTerms): BudgetSpent = {
    if (first > 0) content = readFile(files, file(first))
    spentIn(content, terms)
  }

  override def write(terms: BudgetTerms, spent: BudgetSpent): Unit = {
    val written = content.put("version", Version).withObjectProperty("spent")
    units(terms).zipWithIndex.foreach { case (unit, at) =>
      val told = mapper.createObjectNode
        .put("amount", spent.amounts(at))
        .put("reported", spent.reported(at))
        .put("reports", spent.reports(at))
      written.set[JsonNode](unit, told)
    }
    val next = math.max(first, last) + 1
    files.write(file(next))(_.write(content.toString.getBytes(UTF_8)))
    numbers.filter(_ <= next - left).foreach(number => files.delete(file(number)))
    last = next
  }
}

private[pillarbox] object CheckpointBudget {
  private final val Version = 1
  private val mapper = new ObjectMapper

  private def units(terms: BudgetTerms) = (0 until terms.units).map(terms.unit)

  private def spentIn(content: ObjectNode, terms: BudgetTerms): BudgetSpent = {
    val known = units(terms).map(content.path("spent").path(_))
    terms.nothing.copy(
      amounts = known.map(_.path("amount").asDouble),
      reported = known.map(_.path("reported").asDouble),
      reports = known.map(_.path("reports").asLong)
    )
  }

  /** What a file says, which another budget has written. */
  def read(files: StateFiles, name: String, terms: BudgetTerms): BudgetSpent =
    spentIn(readFile(files, name), terms)

  private def readFile(files: StateFiles, name: String): ObjectNode = {
    val in = files.open(name)
    try
      mapper.readTree(in.readAllBytes()) match {
        case found: ObjectNode if found.path("version").asInt == Version => found
        case other => throw new IOException(s"$name is no budget of version $Version: $other")
      }
    catch {
      case broken: JsonProcessingException =>
        throw new IOException(s"$name, which tells what was spent, can't be read", broken)
    } finally in.close()
  }

  /** The folder of budgets in a query's checkpoint. */
  final val Folder = "pillarbox-budget"
}
