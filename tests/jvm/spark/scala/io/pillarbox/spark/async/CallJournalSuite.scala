package io.pillarbox.spark.async

import java.nio.file.{Files, Path}

import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.spark.functions.{Held, OddFails, Repeat}
import io.pillarbox.spark.{LocalSpark, SpecBuilder}
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

/** Answers that are kept: which calls are made, and what names them. */
class CallJournalSuite extends AnyFunSuite with LocalSpark {

  private def withFolder(scheme: String)(test: (Path, String) => Unit): Unit = {
    val conf = spark.sparkContext.hadoopConfiguration
    conf.set("fs.store.impl", classOf[StoreFileSystem].getName)
    val folder = Files.createTempDirectory("journal")
    try test(folder, s"$scheme$folder/answers")
    finally Files.walk(folder).sorted(java.util.Comparator.reverseOrder()).forEach(Files.delete(_))
  }

  private def calls(rows: DataFrame, cls: Class[_], journal: String)(more: ObjectNode => Unit = _ => ()) =
    SpecBuilder.asyncIO(rows, cls, "x long") { spec =>
      spec.put("journal", journal)
      more(spec)
    }

  private def ids(from: Long, to: Long): DataFrame = spark.range(from, to, 1, 2).toDF()

  for (scheme <- Seq("", "file:", "flaky:", "store:"))
    test(s"a function of the JVM is not called again: a journal under '$scheme'") {
      withFolder(scheme) { (folder, journal) =>
        Held.reset(below = 1000)
        val expected = (0L until 200L).map(i => Row(i, i))
        (1 to 2)
          .foreach(_ => assert(calls(ids(0, 200), classOf[Held], journal)().collect().toSeq == expected))
        assert(Held.started.get == 200)
        assert(calls(ids(0, 210), classOf[Held], journal)().count() == 210)
        assert(Held.started.get == 210)
        assert(Files.list(folder.resolve("answers")).count() > 0)
      }
    }

  test("another process finds what is on the file system") {
    for (scheme <- Seq("", "flaky:", "store:")) withFolder(scheme) { (folder, journal) =>
      Held.reset(below = 1000)
      calls(ids(0, 50), classOf[Held], journal)().collect()
      // Under another path nothing is known of it in memory.
      val moved = Files.move(folder.resolve("answers"), folder.resolve("moved"))
      assert(calls(ids(0, 50), classOf[Held], s"$scheme$moved")().count() == 50)
      assert(Held.started.get == 50)
    }
  }

  test("no row and many rows come back, failures are called again") {
    withFolder("") { (_, journal) =>
      val repeated = calls(ids(0, 5), classOf[Repeat], journal)().collect().toSeq
      assert(repeated.size == 10)
      assert(calls(ids(0, 5), classOf[Repeat], journal)().collect().toSeq == repeated)
      val withError = (spec: ObjectNode) => { spec.put("on_error", "column").put("name", "odd"); () }
      val first = calls(ids(0, 4), classOf[OddFails], journal)(withError).collect().toSeq
      assert(first.map(_.isNullAt(2)) == Seq(true, false, true, false))
      assert(
        calls(ids(0, 4), classOf[OddFails], journal)(withError).collect().toSeq.map(_.isNullAt(2)) ==
          Seq(true, false, true, false)
      )
    }
  }

  test("a folder that is full fails the task and names it; with room again, the job ends well") {
    withFolder("store:") { (_, journal) =>
      Held.reset(below = 1000)
      calls(ids(0, 20), classOf[Held], journal)().collect()
      StoreFileSystem.isFull = true
      try {
        val error = intercept[Exception](calls(ids(0, 40), classOf[Held], journal)().collect())
        val text = Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null).mkString
        assert(text.contains("JOURNAL_FAILED") && text.contains("No space left") && text.contains(journal))
      } finally StoreFileSystem.isFull = false
      val made = Held.started.get
      assert(calls(ids(0, 40), classOf[Held], journal)().count() == 40)
      assert(Held.started.get - made <= 20, "the first twenty were kept before")
      val all = Held.started.get
      assert(calls(ids(0, 40), classOf[Held], journal)().count() == 40)
      assert(Held.started.get == all)
    }
  }

  private def keyOf(schema: String, more: ObjectNode => Unit = _ => ())(values: Any*) = {
    val columns = StructType.fromDDL(schema)
    val spec = AsyncIOSpec.fromJson(SpecBuilder.json("some.Class", "x long", more))
    new CallKeys(spec, columns, columns.indices)(new GenericInternalRow(values.toArray[Any]))
  }

  test("a key is the same for ever: the answers that are on file depend on it") {
    val key =
      keyOf("a long, b string", spec => { spec.put("name", "weather"); () })(7L, UTF8String.fromString("é"))
    assert(key.toString == "7fdb767542d87469c5937a25cbd7198d")
  }

  test("keys differ in the operator, what it returns, and names, types and values of columns") {
    val text = UTF8String.fromString("a")
    val keys = Seq(
      keyOf("a long")(1L),
      keyOf("a long")(2L),
      keyOf("a int")(1),
      keyOf("b long")(1L),
      keyOf("a long")(null),
      keyOf("a long", spec => { spec.put("name", "other"); () })(1L),
      keyOf("a string")(text),
      keyOf("a binary")(text.getBytes),
      keyOf("a string, b string")(text, null),
      keyOf("a string, b string")(null, text),
      keyOf("a string, b string")(UTF8String.fromString("ab"), UTF8String.EMPTY_UTF8),
      keyOf("a string, b string")(text, UTF8String.fromString("b"))
    )
    assert(keys.distinct.size == keys.size)
  }

  test("zeros and NaNs are one key, also inside of others; a row's own form does not matter") {
    val nan = java.lang.Double.longBitsToDouble(0x7ff8000000000001L)
    assert(keyOf("a double")(0.0) == keyOf("a double")(-0.0))
    assert(keyOf("a double")(Double.NaN) == keyOf("a double")(nan))
    assert(keyOf("a double")(0.0) != keyOf("a double")(null))
    def nested(value: Double) = {
      val array = new org.apache.spark.sql.catalyst.util.GenericArrayData(Array[Any](value, null))
      keyOf("a struct<x: array<double>>")(new GenericInternalRow(Array[Any](array)))
    }
    assert(nested(0.0) == nested(-0.0) && nested(0.0) != nested(1.0))
    val columns = StructType.fromDDL("a long, b string")
    val row = new GenericInternalRow(Array[Any](7L, UTF8String.fromString("x")))
    val spec = AsyncIOSpec.fromJson(SpecBuilder.json("some.Class", "x long"))
    val keys = new CallKeys(spec, columns, Seq(1, 0))
    assert(keys(row) == keys(UnsafeProjection.create(columns)(row)))
  }
}
