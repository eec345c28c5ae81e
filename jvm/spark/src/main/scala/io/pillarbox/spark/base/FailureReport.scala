package io.pillarbox.spark.base

import com.fasterxml.jackson.core.json.JsonWriteFeature
import com.fasterxml.jackson.databind.json.JsonMapper
import com.fasterxml.jackson.databind.node.ObjectNode

/**
 * The failure of a task as data, and as the text of the exception that Spark raises for it.
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
    errorType: String,
    condition: String,
    text: String,
    operator: String,
    kind: String,
    message: String,
    traceback: String = "",
    key: Option[String] = None,
    row: Option[String] = None,
    timer: Option[String] = None,
    attempts: Option[Int] = None,
    elapsedMs: Option[Long] = None
) {
  import FailureReport._

  /** The text of the error: what failed and what to do, the texts that were cut in that, the traceback. */
  def errorText: String = RecentFailures.textOf(this)

  /** The text for people alone. */
  private[base] def told: String = {
    val (top, behind, _) = parts
    top + behind
  }

  /**
   * The text with a line for programs, which comes second in a long one: for those who ask for the report.
   * `python/src/pillarbox/_base/report.py` reads it, and `tests/golden/failures.json` has examples.
   */
  def layout: String = {
    val (top, behind, line) = parts
    if (behind.nonEmpty && lengthOf(top) + lengthOf(behind) + lengthOf(line) <= LongestWhole)
      s"$top$behind\n\n$line"
    else s"$top\n$line$behind"
  }

  /** The head, the texts behind it, and the line for programs. */
  private def parts: (String, String, String) = {
    val trace = traceback.replaceAll("\n+\\z", "")
    val plain = cut(oneLine(text), LongestHead)
    val short = if (plain == text) None else shortened
    val head = short.getOrElse(Head(plain, plain.indexOf(message), message))
    val inTrace = if (short.isDefined) trace.lastIndexOf(message) else -1
    val shortMessage = cut(message, LongestMessage)
    val isTold = if (short.isDefined) inTrace >= 0 else shortMessage == message || head.at >= 0
    val texts = Seq(if (plain == text || short.isDefined) "" else text, if (isTold) "" else message, trace)
    val place = shownOperator
    val top = (if (place.isEmpty) s"[$condition] " else s"[$condition] $place: ") + head.text
    val line = json(place)
    if (head.at >= 0) putRange(line, "message", head.text, head.at, head.message)
    else line.put("message", shortMessage)
    val sizes = line.putArray("texts")
    texts.foreach(part => sizes.add(lengthOf(part)))
    if (inTrace >= 0) putRange(line, "whole", trace, inTrace, message)
    val behind = texts.filter(_.nonEmpty).map("\n\n" + _).mkString
    (top, behind, Mark + mapper.writeValueAsString(line))
  }

  /** A head that shortens only the message in it: so it has the remedy, and the message is whole once. */
  private def shortened: Option[Head] = {
    val at = if (message.isEmpty) -1 else text.indexOf(message)
    val (before, behind) = (text.take(at), text.drop(at + message.length))
    val room = LongestHead - costOf(before + behind)
    val fits = at >= 0 && room >= LongestMessage / 2 && oneLine(before + behind) == before + behind
    Option.when(fits) {
      val short = cut(oneLine(message), room)
      Head(before + short + behind, at, short)
    }
  }

  private def shownOperator: String = cut(oneLine(operator), LongestName)

  private def json(place: String): ObjectNode = {
    val line =
      mapper.createObjectNode().put("type", errorType).put("condition", condition).put("operator", place)
    Seq("key" -> key, "row" -> row, "timer" -> timer).foreach { case (field, value) =>
      value.foreach(shown => line.put(field, cut(shown, LongestValue)))
    }
    attempts.foreach(line.put("attempts", _))
    elapsedMs.foreach(line.put("elapsed_ms", _))
    line.put("kind", cut(kind, LongestName))
  }
}

private[pillarbox] object FailureReport {

  /** Spark Connect may pass on only 2,048 characters, which must hold the line for programs. */
  private final val LongestHead = 400
  private final val LongestMessage = 250
  private final val LongestValue = 200
  private final val LongestName = 100

  /** The longest text, in characters, whose line for programs stands behind what people read. */
  private final val LongestWhole = 1200
  private final val Mark = "pillarbox-failure "

  private val mapper = JsonMapper.builder().disable(JsonWriteFeature.WRITE_HEX_UPPER_CASE).build()

  /** The keyed operator of this name as messages name it. */
  def keyed(name: String): String = s"process_keyed($name)"

  /** Makes the report of an error of `errors.json` that has no other reason. */
  def of(condition: String, operator: String, parameters: (String, Any)*): FailureReport =
    titled(condition, ErrorCatalogue.text(condition, parameters: _*), operator)

  /** Makes the report of an error with a given text. */
  def titled(condition: String, text: String, operator: String): FailureReport =
    FailureReport(ErrorCatalogue.typeOf(condition), condition, text, operator, condition, text)

  /** The first line, and the place in it of the message, or of a short form of it; -1 for none. */
  private final case class Head(text: String, at: Int, message: String)

  private def putRange(line: ObjectNode, field: String, text: String, at: Int, part: String): Unit =
    line.putArray(field).add(lengthOf(text.take(at))).add(lengthOf(part)): Unit

  private def costOf(text: String): Int = text.codePoints.map(costOf(_)).sum

  private def lengthOf(text: String): Int = text.codePointCount(0, text.length)

  private def oneLine(text: String): String = text.replace('\r', ' ').replace('\n', ' ')

  /** Cuts the text to at most `limit` characters of JSON. */
  private def cut(text: String, limit: Int): String = {
    var (cost, end, at) = (0, 0, 0)
    while (at < text.length && cost <= limit) {
      val point = text.codePointAt(at)
      cost += costOf(point)
      at += Character.charCount(point)
      if (cost < limit) end = at
    }
    if (cost <= limit) text else text.substring(0, end) + "…"
  }

  private def costOf(point: Int): Int = point match {
    case '"' | '\\' | '\n' | '\r' | '\t' | '\b' | '\f' => 2
    case control if control < ' ' => 6
    case _ => 1
  }
}
