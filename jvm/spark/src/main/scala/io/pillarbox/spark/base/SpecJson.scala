package io.pillarbox.spark.base

import java.util.Locale

import scala.reflect.ClassTag

import com.fasterxml.jackson.core.{JsonParser, JsonProcessingException}
import com.fasterxml.jackson.databind._
import com.fasterxml.jackson.databind.deser.std.StdDeserializer
import com.fasterxml.jackson.databind.json.JsonMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.module.scala.{ClassTagExtensions, DefaultScalaModule}
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * Reads the JSON of the Python side as case classes, and writes it: `timeoutMs` from `timeout_ms`. It has each
 * field of the class, and no other; null is None, and no other value. Any thread.
 */
private[pillarbox] object SpecJson {

  /**
   * @throws IllegalArgumentException
   *   if a field is missing or unknown, has no meaning, or is a number that does not fit
   */
  def read[A: ClassTag](json: String): A =
    try mapper.readValue[A](json)
    catch {
      case problem: JsonProcessingException =>
        problem.getCause match {
          case refused: IllegalArgumentException => throw refused
          case _ => throw new IllegalArgumentException(s"Not as expected: ${problem.getMessage}", problem)
        }
    }

  /** Returns the fields of a case class. */
  def tree(value: AnyRef): ObjectNode = mapper.valueToTree[ObjectNode](value)

  def write(value: AnyRef): String = mapper.writeValueAsString(value)

  /** Returns an object with the fields that `fill` puts into it. */
  def of(fill: ObjectNode => Unit): String = {
    val node = mapper.createObjectNode
    fill(node)
    mapper.writeValueAsString(node)
  }

  /** Returns the one of `options` that has this name. */
  def choice[A](field: String, name: String, options: Seq[A])(nameOf: A => String): A = options
    .find(nameOf(_) == name)
    .getOrElse(
      throw new IllegalArgumentException(
        s"$field is one of ${options.map(nameOf).mkString(", ")}, found '$name'"
      )
    )

  /** Returns the value of an enumeration that has this name in small letters. */
  def valueOf[A <: Enum[A]](field: String, name: String, values: Array[A]): A =
    choice(field, name, values.toSeq)(_.name.toLowerCase(Locale.ROOT))

  /** Reads a type whose values have names. */
  abstract class Named[A: ClassTag](field: String, options: A*)(nameOf: A => String)
      extends StdDeserializer[A](implicitly[ClassTag[A]].runtimeClass) {
    override def deserialize(parser: JsonParser, context: DeserializationContext): A =
      try choice(field, parser.getText, options)(nameOf)
      catch {
        case refused: IllegalArgumentException =>
          throw JsonMappingException.from(parser, refused.getMessage, refused)
      }
  }

  /** Reads a field with a schema: as text that holds JSON, or as JSON within the JSON. */
  final class SchemaReader extends StdDeserializer[StructType](classOf[StructType]) {
    override def deserialize(parser: JsonParser, context: DeserializationContext): StructType = {
      val node = context.readTree(parser)
      DataType.fromJson(if (node.isTextual) node.asText else node.toString).asInstanceOf[StructType]
    }
  }

  private val mapper = JsonMapper.builder
    .addModule(DefaultScalaModule)
    .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
    .enable(
      DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES,
      DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES,
      DeserializationFeature.FAIL_ON_NULL_CREATOR_PROPERTIES,
      DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES
    )
    .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT)
    .build() :: ClassTagExtensions
}
