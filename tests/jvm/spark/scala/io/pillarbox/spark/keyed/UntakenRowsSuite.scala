package io.pillarbox.spark.keyed

import io.pillarbox.tags.Nightly
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.broadcast
import org.scalatest.funsuite.AnyFunSuite

/** Partitions of a micro-batch whose rows nobody takes, before a sink that is no `foreachBatch`. */
class UntakenRowsSuite extends AnyFunSuite with KeyedFixture {

  private def joined(df: DataFrame, how: String): DataFrame = {
    val nothing = spark.range(3).where("id > 5").selectExpr("cast(id as string) as k")
    df.join(broadcast(nothing), Seq("k"), how)
  }

  private def mapped(df: DataFrame): DataFrame = {
    import spark.implicits._
    df.select("k").as[String].mapPartitions((_: Iterator[String]) => Iterator.empty[String]).toDF()
  }

  private val events = "abcdef".map(key => Event(key.toString, 1, 1000))

  private def run(df: DataFrame, checkpoint: String): Unit = {
    val query = df.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    try query.processAllAvailable()
    finally query.stop()
  }

  for {
    ((what, take), number) <- Seq[(String, DataFrame => DataFrame)](
      "an inner join with an empty table" -> (joined(_, "inner")),
      "a semi join with an empty table" -> (joined(_, "left_semi")),
      "a function that takes none" -> mapped,
      "a function that takes none of a coalesce" -> (df => mapped(df.coalesce(1))),
      "a join of a coalesce with an empty table" -> (df => joined(df.coalesce(1), "inner"))
    ).zipWithIndex
    format <- Seq("1", "2")
  } test(
    s"$what leaves no keyed function behind; checkpoint format $format",
    Seq(Nightly).filter(_ => (number % 2 == 0) == (format == "1")): _*
  ) {
    withSettings(checkpointFormat(format) :+ "spark.sql.codegen.wholeStage" -> "false": _*)(withFolder {
      folder =>
        val stream = new Stream(folder)
        val counted = process(stream.input, Spec())
        (1 to 2).foreach { _ =>
          stream.add(events: _*)
          run(take(counted), folder.toString)
        }
        stream.add(events: _*)
        stream.runOnce(counted)
        assert(stream.rows.map(row => row.getString(0) -> row.getLong(2)).sorted == events.map(_.k -> 3L))
    })
  }
}
