package io.pillarbox.spark.keyed

import java.nio.file.Files
import java.sql.Timestamp

import org.apache.spark.sql.functions.udf
import org.apache.spark.sql.{DataFrame, Row}
import org.scalatest.funsuite.AnyFunSuite

class ScanExpressionsSuite extends AnyFunSuite with ScanFixture {

  private def one: DataFrame =
    spark.range(1, 4).coalesce(1).selectExpr("'a' AS k", "id AS v", "nullif(id, 2) AS w", "'text' AS t")

  private def refusal(update: String, select: Seq[String] = Nil): String = {
    val error = intercept[IllegalArgumentException](process(one, scan(Seq(("s", "0L", update)), select)))
    assert(error.getMessage.startsWith("[SCAN_EXPRESSION] process_keyed(test): "), error)
    error.getMessage
  }

  test("functions that Spark's optimizer replaces, over row and state") {
    val expected = Seq(
      ("nvl(w, s)", Seq(1L, 1L, 3L)),
      ("ifnull(w, s) + s", Seq(1L, 2L, 5L)),
      ("coalesce(nullif(s + v, 3), 10)", Seq(1L, 10L, 13L)),
      ("CASE WHEN s + v BETWEEN 1 AND 2 THEN s + v ELSE -1 END", Seq(1L, -1L, 2L)),
      ("nvl2(w, s + 1, s)", Seq(1L, 1L, 2L)),
      ("CAST(s + length(left(t, CAST(v AS INT))) AS BIGINT)", Seq(1L, 3L, 6L)),
      ("s + try_add(v, 1L)", Seq(2L, 5L, 9L))
    )
    expected.foreach { case (update, results) => assert(folded(one, "0L", update) == results, update) }
    assert(folded(one, "array(0L)", "array_append(s, v)").last == Seq(0, 1, 2, 3))
    assert(
      foldedRows(one, Seq(("s", "nvl(w, 5L)", "s + 1")), Seq("nvl(nullif(s, 3), -1) AS e", "left(t, 2)"))
        == Seq(Row(2L, "te"), Row(-1L, "te"), Row(4L, "te"))
    )
  }

  test("SQL functions of the session, and columns of select that use each other") {
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION plus_two(x BIGINT) RETURNS BIGINT RETURN x + 2")
    try assert(folded(one, "0L", "plus_two(s + v)") == Seq(3, 7, 12))
    finally spark.sql("DROP TEMPORARY FUNCTION plus_two")
    val select = Seq("s + 1 AS more", "more * 2 AS twice")
    assert(foldedRows(one, Seq(("s", "0L", "s + v")), select) == Seq(Row(2, 4), Row(4, 8), Row(7, 14)))
  }

  test("deterministic functions of the session that run in the JVM") {
    spark.udf.register("scan_twice", udf((x: Long) => x * 2))
    assert(folded(one, "1L", "scan_twice(s)") == Seq(2, 4, 8))
  }

  test("what is no expression of a row is refused by name, in state and in select") {
    val cases = Seq(
      "sum(v) OVER (PARTITION BY k)" -> "a window function",
      "explode(array(v, s))" -> "a function that makes several rows",
      "(SELECT max(id) FROM range(3))" -> "a subquery",
      "CASE WHEN v IN (SELECT id FROM range(3)) THEN 1L ELSE 0L END" -> "a subquery",
      "CASE WHEN EXISTS (SELECT id FROM range(3)) THEN 1L ELSE 0L END" -> "a subquery",
      "sum(v)" -> "an aggregate function",
      "CAST(rand() * s AS BIGINT)" -> "rand()",
      "CAST(length(uuid()) AS BIGINT)" -> "uuid()",
      "monotonically_increasing_id()" -> "monotonically_increasing_id()",
      "CAST(unix_timestamp(CAST('now' AS TIMESTAMP)) AS BIGINT)" -> "now"
    )
    cases.foreach { case (expression, what) =>
      val inState = refusal(expression)
      assert(inState.contains(what) && inState.contains(expression) && inState.contains("'s'"), inState)
      val inEmit = refusal("s + 1", Seq("k", s"$expression AS e"))
      assert(inEmit.contains(what) && inEmit.contains(s"$expression AS e"), inEmit)
    }
    spark.udf.register("scan_dice", udf(() => scala.util.Random.nextLong()).asNondeterministic())
    assert(refusal("scan_dice()").contains("scan_dice()"))
  }

  test("an initial value is checked as updates are") {
    val error = intercept[IllegalArgumentException](process(one, scan(Seq(("s", "rand()", "s")))))
    assert(error.getMessage.startsWith("[SCAN_EXPRESSION]") && error.getMessage.contains("rand()"))
  }

  private val times =
    Seq("current_timestamp()", "now()", "localtimestamp()", "current_date()", "unix_timestamp()")

  test("the time is one for a batch, and the same in state and output") {
    val rows = spark.range(0, 20000, 1, 2).selectExpr("id % 100 AS k", "id AS v")
    val states = times.zipWithIndex.map { case (time, i) => (s"s$i", time, time) }
    val shown = states.flatMap { case (state, time, _) => Seq(state, s"$time AS e_$state") }
    val different = process(rows, scan(states, shown)).distinct().collect()
    assert(different.length == 1, different.mkString("; "))
  }

  test("the time is the micro-batch's, also when it is replayed") {
    val states = times.zipWithIndex.map { case (time, i) => (s"s$i", time, time) }
    val shown = times.zipWithIndex.map { case (time, i) => s"CAST($time AS STRING) AS e$i" }
    withFolder { folder =>
      val stream = new Stream(folder)
      def run(): Seq[Row] = {
        stream.runOnce(
          process(stream.input, scan(("n", "0L", "n + 1") +: states, Seq("k", "n") ++ shown))
        )
        stream.batches.get(0L)
      }
      stream.add(Event("a", 1, 1), Event("b", 2, 2))
      val first = run()
      assert(first.map(_.toSeq.drop(2)).distinct.size == 1)
      uncommit(folder)
      assert(run() == first)
    }
  }

  /** Lets the next run of the query replay its only micro-batch. */
  private def uncommit(folder: java.nio.file.Path): Unit =
    Seq("0", ".0.crc").foreach(name => Files.deleteIfExists(folder.resolve("commits").resolve(name)))

  test("an emitted event time is still the watermark's, another column of its name is not") {
    withFolder { folder =>
      val stream = new Stream(folder)
      def delay(select: String) =
        process(stream.watermarked, scan(Seq(("first", "ts", "first")), Seq(select))).schema("ts").metadata
      assert(delay("ts").contains("spark.watermarkDelayMs"))
      assert(!delay("first AS ts").contains("spark.watermarkDelayMs"))
    }
  }

  test("a scan on both sides of a join, on a cached input") {
    val counted = process(one.cache(), scan(Seq(("s", "0L", "nvl(w, s)")), Seq("v", "s")))
    val joined = counted.as("a").join(counted.as("b"), "v").selectExpr("a.s = b.s AS same")
    assert(joined.collect().map(_.getBoolean(0)).toSeq == Seq(true, true, true))
  }

  test("literal timestamps are constants") {
    assert(
      folded(one, "TIMESTAMP'2020-01-01 00:00:00'", "s").head == Timestamp.valueOf("2020-01-01 00:00:00")
    )
  }
}
