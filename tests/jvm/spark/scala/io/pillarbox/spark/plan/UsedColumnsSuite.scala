package io.pillarbox.spark.plan

import io.pillarbox.spark.functions.Held
import io.pillarbox.spark.{LocalSpark, SpecBuilder}
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.scalatest.funsuite.AnyFunSuite

class UsedColumnsSuite extends AnyFunSuite with LocalSpark {

  test("places are those of the query; all where a plan has other columns at them") {
    val input = spark.range(3).selectExpr("id", "id AS a", "id AS b")
    val carried = SpecBuilder.asyncIO(input, classOf[Held], "x long")(_.putObject("carry_over"): Unit)
    val query = carried.select("b", "x").queryExecution.analyzed
    val node = query.collectFirst { case node: AsyncIO => node }.get
    def planned(places: Int*) = node.copy(child = Project(places.map(node.child.output), node.child))
    assert(UsedColumns.in(query, planned(0, 1, 2)) == Set(2))
    assert(UsedColumns.in(query, planned(0, 2, 1)) == Set(0, 1, 2))
    assert(UsedColumns.in(query, planned(0, 2)) == Set(0, 1))
    assert(UsedColumns.in(input.queryExecution.analyzed, node) == Set(0, 1, 2))
  }
}
