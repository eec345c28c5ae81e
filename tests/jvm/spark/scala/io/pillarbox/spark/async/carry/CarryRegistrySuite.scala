package io.pillarbox.spark.async.carry

import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.checkpoint.StateFolder
import io.pillarbox.spark.functions.Held
import io.pillarbox.spark.keyed.KeyedFixture
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.scalatest.funsuite.AnyFunSuite

class CarryRegistrySuite extends AnyFunSuite with KeyedFixture {

  test("the plan of a stream that is only shown leaves nothing behind") {
    import spark.implicits._
    val before = CarryRegistry.size
    val stream = MemoryStream[Long](spark).toDF().toDF("id")
    SpecBuilder
      .asyncIO(stream, classOf[Held], "x long")(_.putObject("carry_over"): Unit)
      .explain()
    assert(CarryRegistry.size == before)
  }

  test("watermarks of micro-batches that a query was taken back behind are forgotten") {
    withFolder { folder =>
      val notes = new StateFolder(new Path(folder.toUri), spark.sparkContext.hadoopConfiguration)
      val before = new CarryRegistry(notes, spark, "")
      (0 to 12).foreach { version =>
        before.advance(version.toLong, version * 1000L, Long.MaxValue)
        before.write(version.toLong, keep = 100)
      }
      val again = new CarryRegistry(notes, spark, "")
      again.write(10, keep = 100)
      assert(notes.listNames().toSet == (0 to 10).map(number => s"$number.watermark").toSet)
    }
  }
}
