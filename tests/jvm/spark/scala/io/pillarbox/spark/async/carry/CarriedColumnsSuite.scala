package io.pillarbox.spark.async.carry

import java.nio.charset.StandardCharsets.ISO_8859_1
import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.functions.Held
import io.pillarbox.spark.keyed.KeyedFixture
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{broadcast, expr, lit}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.{DataFrame, Row}
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

/** The columns that rows have in files of slots: what the call or the query needs of them. */
class CarriedColumnsSuite extends AnyFunSuite with KeyedFixture with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(90, Seconds), Span(20, Millis))

  private val rows = new ConcurrentLinkedQueue[Row]

  private def carried(df: DataFrame)(change: ObjectNode => Unit = _ => ()): DataFrame =
    SpecBuilder.asyncIO(df, classOf[Held], "x long") { spec =>
      spec.put("capacity", 9).putObject("carry_over").put("slots", 1)
      spec.putArray("inputs").add("id")
      change(spec)
    }

  private def source(): MemoryStream[Long] = {
    import spark.implicits._
    MemoryStream[Long](spark)
  }

  /** Rows of three columns, whose texts are found in files. */
  private def wide(df: DataFrame): DataFrame = df
    .toDF("id")
    .withColumn("city", expr("concat('city-', id)"))
    .withColumn("secret", expr("concat('secret-', id)"))
    .withColumn("token", expr("concat('token-', id)"))

  private def running(folder: Path, df: DataFrame)(body: StreamingQuery => Unit): Unit = {
    val query = df.writeStream
      .option("checkpointLocation", folder.resolve("checkpoint").toString)
      .foreachBatch((batch: DataFrame, _: Long) => rows.addAll(batch.collect().toSeq.asJava): Unit)
      .start()
    try body(query)
    finally query.stop()
  }

  /** Waits until so many calls have begun. */
  private def begun(query: StreamingQuery, calls: Int): Unit = {
    eventually(assert(Held.started.get == calls || !query.isActive))
    query.exception.foreach(throw _)
  }

  private def withQuery(body: Path => Unit): Unit = withFolder { folder =>
    Held.reset(below = 0)
    rows.clear()
    body(folder)
  }

  /** What all files of the slot say, those of done micro-batches too. */
  private def files(folder: Path): String = {
    val all = Files.list(folder.resolve("checkpoint/state/0/0"))
    try
      all.iterator.asScala
        .filter(_.toString.endsWith(".carried"))
        .map(file => new String(Files.readAllBytes(file), ISO_8859_1))
        .mkString
    finally all.close()
  }

  test("a column that nobody asks for is in no file, whichever inputs of a union have new rows") {
    withQuery { folder =>
      val (one, other) = (source(), source())
      def query = carried(wide(one.toDF()).union(wide(other.toDF())))().select("city", "x")
      running(folder, query) { query =>
        one.addData(1L)
        begun(query, 1)
        other.addData(2L)
        begun(query, 2)
        one.addData(3L)
        begun(query, 3)
      }
      Held.answeredBelow = 100
      other.addData(4L)
      running(folder, query)(_.processAllAvailable())
      val expected = (1L to 4L).map(id => Row(s"city-$id", id))
      assert(rows.asScala.toSeq.sortBy(_.getLong(1)) == expected)
      val found = files(folder)
      assert(found.contains("city-1") && !found.contains("secret-") && !found.contains("token-"))
    }
  }

  test("a row whose call is done has no input in the file that the output lacks") {
    withQuery { folder =>
      val memory = source()
      def query = carried(wide(memory.toDF())) { spec =>
        spec.putArray("inputs").add("id").add("token"): Unit
      }.select("city", "x")
      // Only the first call is in flight, and the others wait behind it.
      running(folder, query) { query =>
        memory.addData(1L)
        begun(query, 1)
        Held.answeredBelow = 100
        memory.addData(2L, 3L)
        begun(query, 3)
        memory.addData(4L)
        begun(query, 4)
        eventually(assert(files(folder).contains("city-4")))
      }
      assert(files(folder).contains("token-1") && !files(folder).contains("secret-"))
      assert((2 to 3).forall(id => !lastFile(folder).contains(s"token-$id")), lastFile(folder))
      running(folder, query)(_.processAllAvailable())
      assert(rows.asScala.toSeq == (1L to 4L).map(id => Row(s"city-$id", id)))
    }
  }

  private def lastFile(folder: Path): String = {
    val all = Files.list(folder.resolve("checkpoint/state/0/0"))
    try {
      val last = all.iterator.asScala.filter(_.toString.endsWith(".carried")).maxBy { file =>
        file.getFileName.toString.takeWhile(_.isDigit).toLong
      }
      new String(Files.readAllBytes(last), ISO_8859_1)
    } finally all.close()
  }

  test(
    "rows in flight keep the columns that an earlier query needed, and a query that needs more is refused"
  ) {
    withQuery { folder =>
      val memory = source()
      def all = carried(wide(memory.toDF()))()
      running(folder, all.select("id", "city", "secret", "x")) { query =>
        memory.addData(1L)
        begun(query, 1)
        eventually(assert(query.lastProgress != null))
      }
      Held.answeredBelow = 100
      val more = intercept[Exception](running(folder, all)(_.processAllAvailable()))
      assert(causes(more).mkString.contains("CARRY_OVER_MISMATCH"))
      running(folder, all.select("city", "x"))(_.processAllAvailable())
      memory.addData(2L)
      running(folder, all.select("token", "x"))(_.processAllAvailable())
      assert(rows.asScala.toSeq == Seq(Row("city-1", 1L), Row("token-2", 2L)))
    }
  }

  test("rows that wait lack what did not leave, and a query that uses it is refused while there are any") {
    withQuery { folder =>
      val memory = source()
      val all = carried(wide(memory.toDF())) { spec =>
        spec.putArray("inputs").add("id").add("token"): Unit
      }
      running(folder, all.select("city", "x")) { query =>
        memory.addData(1L)
        begun(query, 1)
        Held.answeredBelow = 100
        memory.addData(2L, 3L)
        begun(query, 3)
        memory.addData(4L)
        begun(query, 4)
        eventually(assert(files(folder).contains("city-4")))
      }
      val more = all.select("city", "token", "x")
      val refused = causes(intercept[Exception](running(folder, more)(_.processAllAvailable()))).mkString
      assert(refused.contains("CARRY_OVER_MISMATCH") && refused.contains("the used columns [city]"), refused)
      running(folder, all.select("city", "x"))(_.processAllAvailable())
      assert(rows.asScala.toSeq == (1L to 4L).map(id => Row(s"city-$id", id)))
      rows.clear()
      memory.addData(5L)
      running(folder, more)(_.processAllAvailable())
      assert(rows.asScala.toSeq == Seq(Row("city-5", "token-5", 5L)))
    }
  }

  test("the micro-batches of a file source, in whose plans columns have other ids, give all values") {
    withQuery { folder =>
      import spark.implicits._
      Held.answeredBelow = 100
      val input = folder.resolve("input").toString
      def more(ids: Long*): Unit =
        ids.foreach(id => Seq(id).toDF("id").coalesce(1).write.mode("append").json(input))
      more(1, 2)
      val stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(input)
      running(folder, carried(wide(stream))()) { query =>
        query.processAllAvailable()
        Held.answeredBelow = 0
        more(3, 4)
        begun(query, 4)
      }
      Held.answeredBelow = 100
      running(folder, carried(wide(stream))())(_.processAllAvailable())
      assertAllOf(1 to 4)
    }
  }

  test("a column that is cast to its own type has its values") {
    withQuery { folder =>
      val memory = source()
      def query = carried(wide(memory.toDF()).withColumn("id", expr("CAST(id AS LONG)")))()
      running(folder, query) { query =>
        memory.addData(1L, 2L)
        begun(query, 2)
      }
      Held.answeredBelow = 100
      memory.addData(3L)
      running(folder, query)(_.processAllAvailable())
      assertAllOf(1 to 3)
    }
  }

  private def assertAllOf(ids: Range): Unit =
    assert(rows.asScala.toSeq.sortBy(_.getLong(0)) == ids.map { id =>
      Row(id.toLong, s"city-$id", s"secret-$id", s"token-$id", id.toLong)
    })

  private val queries = Seq[(String, DataFrame => DataFrame)](
    "all columns" -> identity,
    "a filter on another column" -> (_.where("city <> 'city-2'").select("id")),
    "a filter on the result" -> (_.where("x > 1").select("token")),
    "distinct rows" -> (_.select("city").distinct()),
    "a union by place" -> (df => df.select("id", "city").union(df.selectExpr("x", "token"))),
    "a struct" -> (_.select(expr("struct(city AS a, struct(token AS c) AS b)").as("s")).selectExpr("s.b.c")),
    "a join" -> (df =>
      df.join(broadcast(spark.range(3).selectExpr("id", "id * 2 AS y")), "id").select("y", "city")
    ),
    "arrays" -> (_.selectExpr("explode(array(city, token)) AS e", "secret").select("e")),
    "a column that is replaced" -> (_.withColumn("city", lit("none")).drop("secret")),
    "nothing of the row" -> (_.selectExpr("1 AS one")),
    "another operator" -> (df => carried(df.drop("x"))().select("secret", "x"))
  )

  queries.foreach { case (what, after) =>
    test(s"the rows are those of a batch: $what") {
      withQuery { folder =>
        Held.answeredBelow = 100
        val memory = source()
        memory.addData(1L, 2L, 3L)
        running(folder, after(carried(wide(memory.toDF()))())) { query =>
          query.processAllAvailable()
          memory.addData(4L)
          query.processAllAvailable()
        }
        val batch = after(carried(wide(spark.range(1, 5).toDF()))()).collect().toSeq
        assert(rows.asScala.toSeq.map(_.toString).sorted == batch.map(_.toString).sorted)
      }
    }
  }
}
