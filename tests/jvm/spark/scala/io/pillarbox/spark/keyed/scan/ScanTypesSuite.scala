package io.pillarbox.spark.keyed.scan

import io.pillarbox.spark.keyed.ScanFixture
import org.apache.spark.sql.DataFrame
import org.scalatest.funsuite.AnyFunSuite

class ScanTypesSuite extends AnyFunSuite with ScanFixture {

  /** One key, in the order of `v`; p is of any type. */
  private def prices(select: String): DataFrame =
    spark.range(1, 4).coalesce(1).selectExpr("'a' AS k", "id AS v", s"$select AS p")

  private val halves = prices("CAST(id AS DOUBLE) / 2")

  private def typeOf(df: DataFrame, initial: String, update: String): String =
    process(df, scan(Seq(("s", initial, update)), Seq("s"))).schema("s").dataType.sql

  private def refusal(df: DataFrame, state: (String, String, String)*): String =
    intercept[IllegalArgumentException](process(df, scan(state))).getMessage

  test("a decimal literal takes the type of a double update, and nothing is cut off") {
    assert(folded(halves, "0.0", "0.5D * s + p") == Seq(0.5, 1.25, 2.125))
    withSettings("spark.sql.ansi.enabled" -> "false") {
      assert(folded(halves, "0.0", "0.5D * s + p") == Seq(0.5, 1.25, 2.125))
    }
  }

  test("a state that takes over another one becomes as wide as that one") {
    val state = Seq(("prev", "0", "total"), ("total", "0", "total + p"))
    val rows = foldedRows(halves, state, Seq("prev", "total")).map(_.toSeq)
    assert(rows == Seq(Seq(0.0, 0.5), Seq(0.5, 1.5), Seq(1.5, 3.0)))
  }

  test("types travel along a chain of states, whatever their order") {
    val chain = Seq(("d", "0", "c"), ("c", "0", "b"), ("b", "0", "a"), ("a", "0", "a + p"))
    val types = process(halves, scan(chain, Seq("a", "b", "c", "d"))).schema.map(_.dataType.sql)
    assert(types == Seq.fill(4)("DOUBLE"))
  }

  test("integers become as wide as their update") {
    assert(typeOf(halves, "0", "s + 1") == "INT")
    assert(typeOf(halves, "0", "s + v") == "BIGINT")
    assert(typeOf(halves, "CAST(0 AS TINYINT)", "s + v") == "BIGINT")
    assert(typeOf(prices("CAST(id AS INT)"), "CAST(0 AS FLOAT)", "p") == "DOUBLE")
  }

  test("a sum of decimals keeps all their places and has room for all digits") {
    val money = prices("CAST(id AS DECIMAL(10,2))")
    assert(typeOf(money, "0.00", "s + p") == "DECIMAL(38,2)")
    assert(folded(money, "0", "s + p").map(_.toString) == Seq("1.00", "3.00", "6.00"))
  }

  test("null and empty collections take the type of their update") {
    assert(folded(halves, "NULL", "coalesce(s, 0) + v") == Seq(1, 3, 6))
    assert(folded(halves, "array()", "concat(s, array(v))") == Seq(Seq(1), Seq(1, 2), Seq(1, 2, 3)))
    assert(
      typeOf(halves, "named_struct('n', 0, 'p', NULL)", "named_struct('n', s.n + v, 'p', p)") ==
        "STRUCT<n: BIGINT, p: DOUBLE>"
    )
  }

  test("intervals, arrays and maps become as wide as their update") {
    assert(typeOf(halves, "INTERVAL '0' SECOND", "s + make_dt_interval(v)") == "INTERVAL DAY TO SECOND")
    assert(typeOf(halves, "INTERVAL '1' MONTH", "s + INTERVAL '1' YEAR") == "INTERVAL YEAR TO MONTH")
    assert(typeOf(halves, "array(0)", "array(p)") == "ARRAY<DOUBLE>")
    assert(typeOf(halves, "map('n', 0)", "map('n', s['n'] + v)") == "MAP<STRING, BIGINT>")
    assert(folded(halves, "map()", "map_concat(s, map(v, p))").last == Map(1L -> 0.5, 2L -> 1.0, 3L -> 1.5))
  }

  test("a constant that the type of the update holds exactly is converted, another one is refused") {
    assert(folded(halves, "0L", "s + p") == Seq(0.5, 1.5, 3.0))
    assert(folded(halves, "-0.1", "s").map(_.toString) == Seq("-0.1", "-0.1", "-0.1"))
    val text = refusal(halves, ("s", "9007199254740993L", "s + p"))
    assert(text.contains("CAST(9007199254740993L AS DOUBLE)"), text)
  }

  test("what fits neither way is refused with the type to write") {
    val column = refusal(prices("CAST(id AS DECIMAL(10,2))"), ("s", "p", "0.5D * s"))
    assert(column.startsWith("[SCAN_STATE_TYPE] process_keyed(test): "), column)
    assert(column.contains("'s'") && column.contains("DECIMAL(10,2)") && column.contains("DOUBLE"), column)
    assert(column.contains("CAST(p AS DOUBLE)"), column)
    assert(refusal(halves, ("s", "v", "p")).contains("CAST(v AS DOUBLE)"))
    assert(refusal(halves, ("s", "0", "CAST(v AS STRING)")).contains("CAST(0 AS STRING)"))
    assert(refusal(halves, ("s", "current_timestamp()", "v")).contains("CAST(current_timestamp() AS BIGINT)"))
    // A float holds no large integer.
    assert(refusal(halves, ("s", "v", "CAST(p AS FLOAT)")).contains("CAST(v AS FLOAT)"))
  }

  test("an update whose type never settles is refused with the type to write") {
    val product = refusal(prices("CAST(id AS DECIMAL(10,2))"), ("s", "1.0", "s * 1.1"))
    assert(
      product.startsWith("[SCAN_STATE_TYPE] process_keyed(test): ") && product.contains("CAST(s * 1.1 AS"),
      product
    )
    assert(
      refusal(halves, ("s", "array()", "array(s)")).startsWith("[SCAN_STATE_TYPE] process_keyed(test): ")
    )
  }

  test("a cast in the update is the type that the user wants, also a narrower one") {
    val money = prices("CAST(id AS DECIMAL(10,2))")
    assert(typeOf(money, "0.00", "CAST(s + p AS DECIMAL(12,2))") == "DECIMAL(12,2)")
    assert(typeOf(money, "1.0", "CAST(s * 1.1 AS DECIMAL(20,6))") == "DECIMAL(20,6)")
  }
}
