package io.pillarbox.spark.async

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.security.MessageDigest
import java.util.HexFormat

import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.metered.journal.{CallKey, JournalOperator}
import io.pillarbox.spark.base.SpecJson
import io.pillarbox.spark.checkpoint.{OddFileSystem, StoreFiles}
import io.pillarbox.spark.functions.{Held, OddFails, Repeat, WrongType}
import io.pillarbox.spark.{LocalSpark, PythonBridge, SpecBuilder}
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection}
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

/** Answers that are kept: which calls are made, and what names them. */
class CallJournalSuite extends AnyFunSuite with LocalSpark with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(20, Seconds))

  private def withFolder(scheme: String)(test: (Path, String) => Unit): Unit = {
    val conf = spark.sparkContext.hadoopConfiguration
    OddFileSystem.install("store", conf)
    val folder = Files.createTempDirectory("journal")
    try test(folder, s"$scheme$folder/answers")
    finally Files.walk(folder).sorted(java.util.Comparator.reverseOrder()).forEach(Files.delete(_))
  }

  private def calls(rows: DataFrame, cls: Class[_], journal: String)(more: ObjectNode => Unit = _ => ()) =
    SpecBuilder.asyncIO(rows, cls, "x long") { spec =>
      kept(spec).put("path", journal)
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

  test("a task whose function can't be made holds no journal afterwards") {
    withFolder("") { (_, journal) =>
      val failed = intercept[Exception](calls(ids(0, 2), classOf[String], journal)().collect())
      assert(failed.getMessage.contains("JVM_CLASS_UNSUITABLE"))
      eventually(assert(HeldFolder.journals.heldCount == 0))
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

  for (scheme <- Seq("", "flaky:", "store:"))
    test(s"a purge takes its answers and no more, in a process that has the files open: under '$scheme'") {
      withFolder(scheme) { (folder, journal) =>
        Held.reset(below = 1000)
        calls(ids(0, 50), classOf[Held], journal)().collect()
        val name = read(journal).select("name").head().getString(0)
        val purge =
          s"""{"path":"$journal","name":"$name","version":null,"older_than_ms":null,"where":"key.id < 10"}"""
        assert(PythonBridge.purgeJournal(spark, purge) == 10)
        assert(PythonBridge.purgeJournal(spark, purge) == 0)
        val left = read(journal, name).selectExpr("min(key.id)", "count(*)", "sum(answer.x - key.id)").head()
        assert(left == Row(10L, 40L, 0L))
        calls(ids(0, 50), classOf[Held], journal)().collect()
        assert(Held.started.get == 60 && read(journal).count() == 50)
        val moved = Files.move(folder.resolve("answers"), folder.resolve("moved"))
        calls(ids(0, 50), classOf[Held], s"$scheme$moved")().collect()
        assert(Held.started.get == 60)
      }
    }

  private def read(journal: String, name: String*): DataFrame =
    name.foldLeft(spark.read.format("pillarbox-journal"))(_.option("name", _)).load(journal)

  test("a view that is older than a change of types says so") {
    withFolder("") { (_, journal) =>
      Held.reset(below = 1000)
      def called(returns: String)(spec: ObjectNode): Unit =
        named("held")(spec.put("returns", StructType.fromDDL(returns).json))
      calls(ids(0, 2), classOf[Held], journal)(called("x long")).collect()
      val view = read(journal, "held")
      assert(view.where("answer.x >= 0").count() == 2)
      calls(ids(0, 2), classOf[WrongType], journal)(called("x string")).collect()
      val error = intercept[Exception](view.where("answer.x >= 0").collect())
      val text = Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null).mkString
      assert(text.contains("JOURNAL_COLUMNS_DIFFER") && text.contains("bigint and string"))
    }
  }

  test("a purge deletes the files whose answers are past all use") {
    withFolder("") { (folder, journal) =>
      Held.reset(below = 1000)
      calls(ids(0, 2), classOf[Held], journal) { spec =>
        named("held")(spec)
        kept(spec).put("ttl_ms", 1000): Unit
      }.collect()
      Files.list(folder.resolve("answers")).forEach { file =>
        Files.setLastModifiedTime(file, java.nio.file.attribute.FileTime.fromMillis(0)): Unit
      }
      PythonBridge.purgeJournal(
        spark,
        s"""{"path":"$journal","name":null,"version":null,"older_than_ms":1,"where":null}"""
      )
      assert(Files.list(folder.resolve("answers")).count() == 0)
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
      StoreFiles.isFull = true
      try {
        val error = intercept[Exception](calls(ids(0, 40), classOf[Held], journal)().collect())
        val text = Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null).mkString
        assert(text.contains("JOURNAL_FAILED") && text.contains("No space left") && text.contains(journal))
      } finally StoreFiles.isFull = false
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
    val spec = SpecJson.read[AsyncIOSpec](SpecBuilder.json("some.Class", "x long", more))
    CallKeys.byValues(spec, columns, columns.indices)(new GenericInternalRow(values.toArray[Any]), 0)
  }

  private def named(name: String, version: String = null)(spec: ObjectNode): Unit =
    kept(spec.put("name", name)).put("version", version): Unit

  private def kept(spec: ObjectNode): ObjectNode = spec.withObject("/journal")

  test("a key is the same for ever: the answers that are on file depend on it, and so do services") {
    val text = UTF8String.fromString("é")
    val weather = keyOf("a long, b string", named("weather"))(7L, text)
    assert(weather.toString == "91f39a9821a45965ecbfbcae0c8a32be")
    // Made by hand: the bytes of the format, with an implementation of SHA-256 that isn't ours.
    val head = "16:pillarbox call 1" + "7:weather" + "0:" + "1:a" + "6:bigint" + "1:b" + "6:string"
    val values = "0000000000000000" + "0700000000000000" + "0200000018000000" + "c3a9000000000000"
    assert(weather.values.toSeq == HexFormat.of.parseHex(values).toSeq)
    def sha256(bytes: Array[Byte]) = MessageDigest.getInstance("SHA-256").digest(bytes)
    val hash = sha256(sha256(head.getBytes(UTF_8)) ++ weather.values)
    assert(weather.toString == HexFormat.of.formatHex(hash, 0, 16))
    assert(
      keyOf("a long, b string", named("weather", "é"))(
        7L,
        text
      ).toString == "13b10155e0fe4ff40e0c7069b78318c4"
    )
    assert(allTypes.toString == "314cefdc87dac0c6f709676fbde668c4")
  }

  /** Of all types that have equality. */
  private def allTypes: CallKey = keyOf(
    "a boolean, b byte, c short, d int, e long, f float, g double, h decimal(10,2), i decimal(38,10), " +
      "j string, k binary, l date, m timestamp, n timestamp_ntz, o interval day to second, " +
      "p interval year to month, q array<int>, r struct<x: int, y: string>, s string",
    named("types")
  )(
    true,
    1.toByte,
    (-2).toShort,
    3,
    -4L,
    0.5f,
    -0.25,
    Decimal("12345.67"),
    Decimal(BigDecimal("-1.5"), 38, 10),
    UTF8String.fromString("text"),
    Array[Byte](0, -1),
    19000,
    1700000000000000L,
    -1L,
    86400000000L,
    14,
    new GenericArrayData(Array[Any](1, null, 3)),
    new GenericInternalRow(Array[Any](null, UTF8String.fromString("in it"))),
    null
  )

  test("nothing that isn't asked is in a key: what is returned, comments, nullability, collations, journal") {
    val text = UTF8String.fromString("a")
    val plain = keyOf("a struct<x: string>, b string")(new GenericInternalRow(Array[Any](text)), text)
    val columns = "a struct<x: string not null comment 'x'> comment 'y', b string collate UTF8_LCASE not null"
    val returnsOther = (spec: ObjectNode) => {
      spec.put("returns", StructType.fromDDL("y int").json).put("explode", true)
      ()
    }
    assert(keyOf(columns, returnsOther)(new GenericInternalRow(Array[Any](text)), text) == plain)
  }

  test("an operator is described for readers of its answers, and comments are no difference") {
    def describe(returns: String, key: String, change: ObjectNode => Unit) =
      JournalOperators.of(
        SpecJson.read[AsyncIOSpec](SpecBuilder.json("some.Class", returns, change)),
        StructType.fromDDL(key)
      )
    val long = """{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}"""
    val int = """{"type":"struct","fields":[{"name":"x","type":"integer","nullable":false,"metadata":{}}]}"""
    def ids(operator: JournalOperator) = (operator.high, operator.low)
    val json =
      s"""{"name":"weather","version":"v2","key":$long,"returns":$int,"explode":false}"""
    val found = describe("x int not null comment 'c'", "a long not null", named("weather", "v2"))
    assert(ids(found) == ids(new JournalOperator(json)))
    val others = Seq(
      describe("x int", "a long", named("weather", "v2")),
      describe("y int not null", "a long", named("weather", "v2")),
      describe("x long not null", "a long", named("weather", "v2")),
      describe("x int not null", "b long", named("weather", "v2")),
      describe("x int not null", "a long", named("weather")),
      describe("x int not null", "a long", named("other", "v2")),
      describe(
        "x int not null",
        "a long",
        spec => { named("weather", "v2")(spec); spec.put("explode", true); () }
      )
    )
    assert((found +: others).map(ids).distinct.size == 8)
  }

  test("an answer that doesn't fit what the operator returns now is asked for again, and both stay") {
    withFolder("") { (_, journal) =>
      Held.reset(below = 1000)
      def run(change: ObjectNode => Unit) = calls(ids(0, 5), classOf[Held], journal)(change).count()
      val changes = Seq[ObjectNode => Unit](
        _ => (),
        _.put("returns", StructType.fromDDL("x long not null").json): Unit,
        _.put("returns", StructType.fromDDL("y long").json): Unit,
        _.put("explode", true): Unit,
        kept(_).put("version", "2"): Unit
      )
      changes.zipWithIndex.foreach { case (change, i) =>
        run(change)
        assert(Held.started.get == 5 * (i + 1))
      }
      changes.foreach(run)
      assert(Held.started.get == 5 * changes.size)
    }
  }

  test("keys differ in the operator's name and version, and in names, types and values of columns") {
    val text = UTF8String.fromString("a")
    val keys = Seq(
      keyOf("a long")(1L),
      keyOf("a long")(2L),
      keyOf("a int")(1),
      keyOf("b long")(1L),
      keyOf("a long")(null),
      keyOf("a long", named("other"))(1L),
      keyOf("a long", named("other", "1"))(1L),
      keyOf("a long", named("other", "2"))(1L),
      keyOf("a long", named("other1"))(1L),
      keyOf("a string")(text),
      keyOf("a binary")(text.getBytes),
      keyOf("a string, b string")(text, null),
      keyOf("a string, b string")(null, text),
      keyOf("a string, b string")(UTF8String.fromString("ab"), UTF8String.EMPTY_UTF8),
      keyOf("a string, b string")(text, UTF8String.fromString("b"))
    )
    assert(keys.distinct.size == keys.size)
  }

  test("by place, a call's name is of the scope, the row's number and all that the function sees") {
    val columns = StructType.fromDDL("a int, b int, c double, d map<string, int>")
    def nameOf(scope: String, inputs: Int*)(elementId: Long, values: Any*) = {
      val row = new GenericInternalRow(values.toArray)
      val name = CallKeys.byPlace(scope, columns, inputs)(row, elementId)
      assert(
        name == CallKeys.byPlace(scope, columns, inputs)(UnsafeProjection.create(columns)(row), elementId)
      )
      name
    }
    def map(value: Int) =
      ArrayBasedMapData(java.util.Map.of(UTF8String.fromString("k"), value), identity[Any] _, identity[Any] _)
    def all(elementId: Long, values: Any*) = nameOf("s", 0, 1, 2, 3)(elementId, values: _*)
    val names = Seq(
      all(0, 1, null, 0.0, map(1)),
      all(1, 1, null, 0.0, map(1)),
      all(0, null, 1, 0.0, map(1)),
      all(0, 1, null, -0.0, map(1)),
      all(0, 1, null, 0.0, map(2)),
      all(0, 1, null, 0.0, null),
      nameOf("s-0", 0, 1, 2, 3)(0, 1, null, 0.0, map(1)),
      nameOf("s", 0)(0, 1, null, 0.0, map(1))
    )
    assert(names.distinct.size == names.size)
    assert(nameOf("s", 0)(0, 1, 1, 0.0, null) == nameOf("s", 0)(0, 1, 2, 1.0, map(1)))
    val zero = new GenericInternalRow(Array[Any](0))
    val asSeen = Seq("a int", "b int", "a date").map { columns =>
      CallKeys.byPlace("s", StructType.fromDDL(columns), Seq(0))(zero, 0)
    }
    assert(asSeen.distinct.size == asSeen.size)
  }

  test("zeros and NaNs are one key, also inside of others; a row's own form does not matter") {
    val nan = java.lang.Double.longBitsToDouble(0x7ff8000000000001L)
    assert(keyOf("a double")(0.0) == keyOf("a double")(-0.0))
    assert(keyOf("a double")(Double.NaN) == keyOf("a double")(nan))
    assert(keyOf("a double")(0.0) != keyOf("a double")(null))
    def nested(value: Double) = {
      val array = new GenericArrayData(Array[Any](value, null))
      keyOf("a struct<x: array<double>>")(new GenericInternalRow(Array[Any](array)))
    }
    assert(nested(0.0) == nested(-0.0) && nested(0.0) != nested(1.0))
    val columns = StructType.fromDDL("a long, b string")
    val row = new GenericInternalRow(Array[Any](7L, UTF8String.fromString("x")))
    val spec = SpecJson.read[AsyncIOSpec](SpecBuilder.json("some.Class", "x long"))
    val keys = CallKeys.byValues(spec, columns, Seq(1, 0))
    assert(keys(row, 0) == keys(UnsafeProjection.create(columns)(row), 1))
  }
}
