package io.pillarbox.spark.state

import java.nio.file.Paths
import java.util.Comparator

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import io.pillarbox.api.{Compatibility, InputView, OutputView}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

/** What becomes of state whose type has changed: the cases of tests/golden drive Python's harness too. */
class RowEvolutionSuite extends AnyFunSuite {
  private val mapper = new ObjectMapper
  private val zone = Some("UTC")

  mapper.readTree(Paths.get("tests", "golden", "evolution.json").toFile).elements.asScala.foreach { golden =>
    val old = new UnsafeRowSerializer(wire(golden.path("old").asText))
    val now = new UnsafeRowSerializer(wire(golden.path("new").asText))

    def read(reader: InputView => UnsafeRow): JsonNode = {
      val out = new OutputView(64)
      old.serialize(row(wired(golden, "old", "value"), old.schema), out)
      json(reader(new InputView(out.toByteArray)), now.schema)
    }

    test(s"${golden.path("old").asText} -> ${golden.path("new").asText}") {
      now.compatibilityWith(old.snapshot) match {
        case refused: Compatibility.Incompatible[UnsafeRow] => assert(!golden.has("read"), refused.reason)
        case migrated: Compatibility.AfterMigration[UnsafeRow] =>
          assert(golden.has("read"), "is taken")
          same(read(migrated.reader.apply), wired(golden, "new", "read"))
        case _ => same(read(now.deserialize), wired(golden, "new", "read"))
      }
    }
  }

  test("fields of one name, in a struct that stays as it is, stay apart") {
    val pair = new StructType().add("x", "int").add("x", "int")
    val old = new UnsafeRowSerializer(new StructType().add("pair", pair))
    val now = new UnsafeRowSerializer(old.schema.add("more", "int"))
    val out = new OutputView(64)
    old.serialize(UnsafeProjection.create(old.schema)(InternalRow(InternalRow(1, 2))), out)
    now.compatibilityWith(old.snapshot) match {
      case migrated: Compatibility.AfterMigration[UnsafeRow] =>
        val read = migrated.reader.apply(new InputView(out.toByteArray)).getStruct(0, 2)
        assert(Seq(read.getInt(0), read.getInt(1)) == Seq(1, 2))
      case other => fail(other.toString)
    }
  }

  private def wire(ddl: String): StructType = DataType.fromDDL(ddl) match {
    case struct: StructType => struct
    case plain => new StructType().add("value", plain)
  }

  private def wired(golden: JsonNode, types: String, field: String): JsonNode =
    DataType.fromDDL(golden.path(types).asText) match {
      case _: StructType => golden.path(field)
      case _ => mapper.createObjectNode.set("value", golden.path(field))
    }

  private def row(value: JsonNode, schema: StructType): UnsafeRow = {
    val text = Literal(UTF8String.fromString(value.toString), org.apache.spark.sql.types.StringType)
    val read = evaluated(JsonToStructs(schema, Map.empty, text, zone))
    UnsafeProjection.create(schema)(read.asInstanceOf[InternalRow]).copy()
  }

  private def json(row: UnsafeRow, schema: StructType): JsonNode = {
    val struct = Literal.create(row, schema)
    mapper.readTree(evaluated(StructsToJson(Map("ignoreNullFields" -> "false"), struct, zone)).toString)
  }

  /** Spark's JSON expressions are replaced before they run. */
  private def evaluated(expression: Expression): Any = expression match {
    case replaced: RuntimeReplaceable => replaced.replacement.eval()
    case other => other.eval()
  }

  private def same(found: JsonNode, wanted: JsonNode): Unit = {
    val byValue: Comparator[JsonNode] = (one, other) =>
      if (one.isNumber && other.isNumber) one.decimalValue.compareTo(other.decimalValue)
      else if (one == other) 0
      else 1
    assert(found.equals(byValue, wanted), s"$found, and not $wanted")
  }
}
