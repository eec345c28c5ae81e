package io.pillarbox.spark.task

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.{Literal, Rand}
import org.apache.spark.sql.types.StructType
import org.scalatest.funsuite.AnyFunSuite

class ProjectionsSuite extends AnyFunSuite {
  private val schema = StructType.fromDDL("a bigint, b string")
  private val query = Some(UUID.randomUUID.toString)

  test("tasks of a query lend each other a projection, one at a time") {
    val (first, second, third) = (new Projections(query), new Projections(query), new Projections(query))
    val projection = first.of(schema)
    assert(second.of(schema) ne projection, "another task has it")
    first.giveBack()
    first.giveBack()
    assert(third.of(schema) eq projection)
    assert(third.of(schema) ne projection, "one of a task's own is not lent to it again")
  }

  test("tasks of other queries, of batches, and with other columns have their own") {
    val first = new Projections(query)
    val projection = first.of(schema)
    first.giveBack()
    assert(new Projections(Some(UUID.randomUUID.toString)).of(schema) ne projection)
    assert(new Projections(None).of(schema) ne projection)
    assert(new Projections(query).of(StructType.fromDDL("a bigint, b string not null")) ne projection)
  }

  test("one that is not deterministic is made for its task") {
    val random = Seq(new Rand(Literal(7L)))
    val first = new Projections(query)
    val projection = first.of(random)
    first.giveBack()
    assert(new Projections(query).of(random) ne projection)
  }
}
