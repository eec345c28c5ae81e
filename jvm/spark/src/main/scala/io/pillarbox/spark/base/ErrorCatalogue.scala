package io.pillarbox.spark.base

import scala.util.Using
import scala.util.matching.Regex

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** The texts of errors that both sides raise: the Python package's `errors.json`, which is in the jar. */
private[pillarbox] object ErrorCatalogue {
  private val Parameter = """\{(\w+)(!r)?\}""".r

  private lazy val errors: JsonNode =
    Using.resource(getClass.getResourceAsStream("/pillarbox/errors.json"))(new ObjectMapper().readTree(_))

  /** True if it is an error of this library. */
  def has(name: String): Boolean = errors.has(name)

  /** The Python class of the error. */
  def typeOf(name: String): String = errors.path(name).path("type").asText

  /**
   * Returns what was wrong and what to do, without the name.
   *
   * @param parameters the parameters of the text, by name
   */
  def text(name: String, parameters: (String, Any)*): String = {
    val entry = errors.path(name)
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
