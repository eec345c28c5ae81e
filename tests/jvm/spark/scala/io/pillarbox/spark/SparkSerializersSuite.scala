package io.pillarbox.spark

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}

import scala.beans.BeanProperty

import io.pillarbox.api.{Compatibility, InputView, OutputView, TypeSerializer}
import io.pillarbox.spark.SparkSerializersSuite._
import io.pillarbox.spark.state.ObjectSerializer
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.{Encoders, Row}
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

/** Objects as values of state. */
class SparkSerializersSuite extends AnyFunSuite {
  private val visits = SparkSerializers.of(Encoders.product[Visit])
  private val pages = SparkSerializers.of(Encoders.bean(classOf[Page]))

  test("case classes, tuples and single values come back as they were") {
    assert(readBack(visits, Visit("home", Seq(1, 2))) == Visit("home", Seq(1, 2)))
    assert(readBack(visits, Visit(null, Nil)) == Visit(null, Nil))
    assert(
      readBack(SparkSerializers.of(Encoders.tuple(Encoders.STRING, Encoders.scalaLong)), ("a", 7L)) == ((
        "a",
        7L
      ))
    )
    assert(readBack(SparkSerializers.of(Encoders.STRING), "plain") == "plain")
  }

  test("a row of more or fewer columns than its state is refused, with both") {
    val rows = SparkSerializers.rows("page string, visits bigint")
    Seq(Row("a"), Row("a", 1L, 2)).foreach { row =>
      val message = intercept[IllegalArgumentException](bytesOf(rows, row)).getMessage
      assert(message.contains(s"A row of ${row.length} columns") && message.contains("visits BIGINT"))
    }
    assert(readBack(rows, Row("a", null)) == Row("a", null))
  }

  test("a row that doesn't fit its state is refused with its classes, and without its values") {
    val rows = SparkSerializers.rows("visits bigint, at timestamp")
    Seq(Row("sk-1", null), Row(1L, "sk-1"), Row(null, Row("sk-1"))).foreach { row =>
      val message = intercept[IllegalArgumentException](bytesOf(rows, row)).getMessage
      assert(!message.contains("sk-1") && message.contains("was given to state of visits BIGINT"))
    }
  }

  test("a bean comes back as it was, and its copy is another object") {
    val page = new Page("home", 3)
    val (read, copy) = (readBack(pages, page), pages.copy(page))
    page.title = "changed"
    assert((read.title, read.visits, copy.title, copy.visits) == (("home", 3, "home", 3)))
  }

  test("what is written for one object is not changed by the next") {
    val out = new OutputView(64)
    visits.serialize(Visit("a", Nil), out)
    visits.serialize(Visit("bb", Seq(5)), out)
    val in = new InputView(out.toByteArray)
    assert((visits.deserialize(in), visits.deserialize(in)) == ((Visit("a", Nil), Visit("bb", Seq(5)))))
  }

  test("a later class with one more field reads what the earlier one wrote, one with fewer is refused") {
    val wider = SparkSerializers.of(Encoders.product[LaterVisit])
    wider.compatibilityWith(visits.snapshot) match {
      case migrated: Compatibility.AfterMigration[LaterVisit] =>
        assert(migrated.reader.apply(bytesOf(visits, Visit("a", Seq(1)))) == LaterVisit("a", Seq(1), None))
      case other => fail(other.toString)
    }
    assert(visits.compatibilityWith(wider.snapshot).isInstanceOf[Compatibility.Incompatible[_]])
  }

  test("an object is made of what Spark shows of it, as initial state has it") {
    val serializer = new ObjectSerializer(Encoders.bean(classOf[Page]))
    val page = serializer.ofShown(InternalRow(UTF8String.fromString("home"), 3))
    assert((page.title, page.visits) == (("home", 3)))
    assert(new ObjectSerializer(Encoders.STRING).ofShown(UTF8String.fromString("plain")) == "plain")
  }

  test("a serializer travels to another JVM") {
    val bytes = new ByteArrayOutputStream
    new ObjectOutputStream(bytes).writeObject(visits)
    val read = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray)).readObject()
    assert(readBack(read.asInstanceOf[TypeSerializer[Visit]], Visit("a", Seq(1))) == Visit("a", Seq(1)))
  }

  private def bytesOf[T](serializer: TypeSerializer[T], value: T): InputView = {
    val out = new OutputView(64)
    serializer.serialize(value, out)
    new InputView(out.toByteArray)
  }

  private def readBack[T](serializer: TypeSerializer[T], value: T): T =
    serializer.deserialize(bytesOf(serializer, value))
}

object SparkSerializersSuite {
  final case class Visit(page: String, at: Seq[Int])
  final case class LaterVisit(page: String, at: Seq[Int], from: Option[String])

  final class Page(@BeanProperty var title: String, @BeanProperty var visits: Int) {
    def this() = this(null, 0)
  }
}
