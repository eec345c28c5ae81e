package io.pillarbox.spark.base

import scala.jdk.CollectionConverters._
import scala.util.Using
import scala.util.matching.Regex

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** The texts of errors that both sides raise: the Python package's `errors.json`, which is in the jar. */
private[pillarbox] object ErrorCatalogue {
  private val Parameter = """\{(\w+)(!r)?\}""".r

  private lazy val byType: JsonNode =
    Using.resource(getClass.getResourceAsStream("/pillarbox/errors.json"))(new ObjectMapper().readTree(_))

  /** True if it is an error of this library. */
  def has(name: String): Boolean = byType.elements.asScala.exists(_.has(name))

  /** The Python class of the error. */
  def typeOf(name: String): String =
    byType.fieldNames.asScala.find(byType.path(_).has(name)).getOrElse("")

  /**
   * Returns what was wrong and what to do, without the name.
   *
   * @param parameters the parameters of the text, by name
   */
  def text(name: String, parameters: (String, Any)*): String = {
    val entry = byType.path(typeOf(name)).path(name)
    val template = s"${entry.path("message").asText} ${entry.path("remedy").asText}"
    val values = parameters.toMap
    val filled = Parameter.replaceAllIn(
      template,
      found => {
        val value = values(found.group(1)).toString
        Regex.quoteReplacement(if (found.group(2) == null) value else s"'$value'")
      }
    )
    filled.replace("{{", "{").replace("}}", "}")
  }
}
