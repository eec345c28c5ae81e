package io.pillarbox.spark.plan

import scala.concurrent.duration._

import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.spark.functions._
import io.pillarbox.spark.{LocalSpark, SpecBuilder}
import org.apache.spark.sql.functions.{col, sum}
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.{SparkException, SparkThrowable}
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

class AsyncIOExecSuite extends AnyFunSuite with LocalSpark with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(30, Seconds))

  test("a function of the JVM answers from other threads, in order") {
    val df = multiplied(spark.range(0, 500, 1, 2).toDF())
    assert(df.collect().toSeq == (0L until 500L).map(i => Row(i, i * 3)))
  }

  test("unordered answers leave as they come") {
    Held.reset(below = 1000)
    val df = asyncIO[Held](spark.range(0, 300, 1, 1).toDF()) { spec =>
      spec.put("ordered", false)
      ()
    }
    assert(df.collect().map(_.getLong(1)).toSet == (0L until 300L).toSet)
  }

  test("an element may become no row, or many") {
    val df = asyncIO[Repeat](spark.range(0, 4, 1, 1).toDF())()
    val expected = Seq(Row(1L, 0L), Row(2L, 0L), Row(2L, 1L), Row(3L, 0L), Row(3L, 1L), Row(3L, 2L))
    assert(df.collect().toSeq == expected)
  }

  test("a failure fails the query with the row, or becomes nulls, or a column") {
    val rows = spark.range(0, 2, 1, 1).toDF()
    val error = intercept[Exception](asyncIO[OddFails](rows)().collect())
    assert(messages(error).exists(text => text.contains("ASYNC_CALL_FAILED") && text.contains("id=1")))
    val nulls = asyncIO[OddFails](rows) { spec => spec.put("on_error", "null"); () }
    assert(nulls.collect().toSeq == Seq(Row(0L, 0L), Row(1L, null)))
    val kept = asyncIO[OddFails](rows) { spec => spec.put("on_error", "column"); () }
    val why = kept.select("error.kind", "error.message", "error.attempts").collect().toSeq
    assert(why == Seq(Row(null, null, null), Row("IllegalStateException", "odd 1", 1)))
  }

  test("an answer of the wrong type or width fails its element, and says what was expected") {
    val rows = spark.range(0, 1, 1, 1).toDF()
    def why(df: DataFrame): String = df.select("error.message").head().getString(0)
    val kept = (spec: ObjectNode) => { spec.put("on_error", "column"); () }
    val wrongType = why(asyncIO[WrongType](rows)(kept))
    assert(wrongType.contains("(text)") && wrongType.contains("x BIGINT") && wrongType.contains("String"))
    assert(why(asyncIO[WrongWidth](rows)(kept)).contains("2 columns"))
  }

  test("a limit cancels what it does not need and closes the function") {
    Held.reset(below = 3)
    val df = asyncIO[Held](spark.range(0, 1000, 1, 1).toDF())()
    assert(df.limit(3).collect().map(_.getLong(1)).toSeq == Seq(0L, 1L, 2L))
    assert(Held.opened.get == 1)
    eventually {
      assert(Held.closed.get == 1)
      assert(Held.cancelled.get == Held.started.get - 3)
    }
  }

  for (interrupts <- Seq(false, true))
    test(s"a cancelled job leaves no call in flight (interrupts: $interrupts)") {
      Held.reset(below = 0)
      val group = s"cancel-$interrupts"
      val job = new Thread(() => {
        spark.sparkContext.setJobGroup(group, group, interrupts)
        intercept[SparkException](asyncIO[Held](spark.range(0, 100, 1, 2).toDF())().collect())
        ()
      })
      job.start()
      eventually(assert(Held.started.get == 20))
      spark.sparkContext.cancelJobGroup(group)
      job.join(10.seconds.toMillis)
      assert(!job.isAlive)
      eventually {
        assert(Held.cancelled.get == 20)
        assert(Held.closed.get == Held.opened.get)
      }
    }

  test("an empty partition opens nothing") {
    Held.reset(below = 1000)
    assert(asyncIO[Held](spark.range(0, 100, 1, 4).where("id = 60").toDF())().count() == 1)
    assert(Held.opened.get == 1)
  }

  test("aggregates, sorts and joins above it run, under adaptive execution") {
    val df = multiplied(spark.range(0, 100, 1, 2).toDF())
    val sums = df.groupBy((col("id") % 2).as("odd")).agg(sum("x")).orderBy("odd")
    assert(sums.collect().toSeq == Seq(Row(0L, 7350L), Row(1L, 7500L)))
    val joined = df.as("a").join(df.as("b"), col("a.id") === col("b.x"))
    assert(joined.count() == 34)
  }

  test("a class that is missing fails the query with its name") {
    val json = SpecBuilder.json("com.acme.Missing", "x long")
    val df = io.pillarbox.spark.PythonBridge.asyncIO(spark.range(1).toDF(), null, json)
    assert(messages(intercept[Exception](df.collect())).exists(_.contains("com.acme.Missing is not on")))
  }

  test("an unknown input column is refused when the frame is made") {
    val error = intercept[Exception](asyncIO[Repeat](spark.range(1).toDF()) { spec =>
      spec.putArray("inputs").add("idd")
      ()
    })
    assert(error.asInstanceOf[SparkThrowable].getCondition.startsWith("UNRESOLVED_COLUMN"))
  }

  private def multiplied(rows: DataFrame): DataFrame = asyncIO[Multiply](rows) { spec =>
    spec.putObject("options").put("factor", "3")
    ()
  }

  private def asyncIO[F](rows: DataFrame)(change: ObjectNode => Unit = _ => ())(implicit
      function: reflect.ClassTag[F]
  ): DataFrame = SpecBuilder.asyncIO(rows, function.runtimeClass, "x long")(change)

  private def messages(error: Throwable): Seq[String] =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).map(e => String.valueOf(e.getMessage)).toSeq
}
