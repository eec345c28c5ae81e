package io.pillarbox.spark.base

import com.fasterxml.jackson.annotation.JsonProperty
import com.fasterxml.jackson.databind.annotation.JsonDeserialize

/**
 * The failure of a task as data, and as the text of the exception that Spark raises for it. Its JSON is that of
 * `python/src/pillarbox/_base/report.py`, as is its text; `tests/golden/failures.json` has cases for both.
 *
 * @param errorType the Python class of the error
 * @param condition a key of `errors.json`, and the condition of Spark's exception
 * @param text what was wrong and what to do, without the condition
 * @param operator the operator as messages name it; empty if unknown
 * @param kind the class name of the user's exception, or an error name of this library
 * @param message the message of the user's exception
 * @param traceback the traceback of the user's code, or the stack of the JVM
 */
private[pillarbox] final case class FailureReport(
    @JsonProperty("type") errorType: String,
    condition: String,
    text: String,
    operator: String,
    kind: String,
    message: String,
    traceback: String = "",
    key: Option[String] = None,
    row: Option[String] = None,
    timer: Option[String] = None,
    @JsonDeserialize(contentAs = classOf[Integer]) attempts: Option[Int] = None,
    @JsonDeserialize(contentAs = classOf[java.lang.Long]) elapsedMs: Option[Long] = None
) {
  import FailureReport._

  /** The text of the error, by which `RecentFailures` finds this report from now on. */
  def errorText: String = RecentFailures.textOf(this)

  /**
   * A line that says what failed and what to do, then as a whole what is shortened in it, then the traceback.
   * `_driver/failure_text.py` reads it where nothing else comes through.
   */
  private[base] def told: String = {
    val trace = withoutEnd(traceback)
    val plain = cut(oneLine(text), LongestHead)
    val short = if (plain == text) None else shortened
    val whole = if (plain == text) "" else if (short.isDefined) withoutEnd(message) else text
    val place = cut(oneLine(operator), LongestName)
    val head = (if (place.isEmpty) s"[$condition] " else s"[$condition] $place: ") + short.getOrElse(plain)
    val behind = Seq(if (trace.contains(whole)) "" else whole, trace).filter(_.nonEmpty)
    (head +: behind).mkString("\n\n")
  }

  /** The text in one line, shortened in the message alone: so the remedy is in it. */
  private def shortened: Option[String] = {
    val at = if (message.isEmpty) -1 else text.indexOf(message)
    val (before, behind) = (text.take(at), text.drop(at + message.length))
    val room = LongestHead - lengthOf(before + behind)
    val fits = at >= 0 && room >= LeastMessage && oneLine(before + behind) == before + behind
    Option.when(fits)(before + cut(oneLine(message), room) + behind)
  }
}

private[pillarbox] object FailureReport {

  /** In characters. Spark Connect may pass on only the first 2,048. */
  private final val LongestHead = 400
  private final val LongestName = 100

  /** The least of a message that makes it worth shortening it alone. */
  private final val LeastMessage = 125

  /** The keyed operator of this name as messages name it. */
  def keyed(name: String): String = s"process_keyed($name)"

  /** Makes the report of an error of `errors.json` that has no other reason. */
  def of(condition: String, operator: String, parameters: (String, Any)*): FailureReport =
    titled(condition, ErrorCatalogue.text(condition, parameters: _*), operator)

  /** Makes the report of an error with a given text. */
  def titled(condition: String, text: String, operator: String): FailureReport =
    FailureReport(ErrorCatalogue.typeOf(condition), condition, text, operator, condition, text)

  private def lengthOf(text: String): Int = text.codePointCount(0, text.length)

  private def withoutEnd(text: String): String = text.replaceAll("\n+\\z", "")

  private def oneLine(text: String): String = text.replace('\r', ' ').replace('\n', ' ')

  private def cut(text: String, limit: Int): String =
    if (lengthOf(text) <= limit) text else text.substring(0, text.offsetByCodePoints(0, limit - 1)) + "…"
}
