package io.pillarbox.spark.keyed.jvm

import java.lang.ref.WeakReference
import java.util.{Map => JMap}

import io.pillarbox.api.KeyedProcessFunction.{Context, OnTimerContext, OpenContext}
import io.pillarbox.api._
import io.pillarbox.spark.SparkSerializers
import io.pillarbox.spark.keyed.{Event, KeyedFixture, Spec}
import org.apache.spark.TaskContext
import org.apache.spark.sql.Row
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

class OpenedFunctionSuite extends AnyFunSuite with KeyedFixture with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds), Span(200, Millis))

  private class Silent extends KeyedProcessFunction[Row, Row, Row] {
    override def processElement(row: Row, context: Context[Row], out: Collector[Row]): Unit = ()
  }

  /** Another method of the name does not handle timers. */
  private class Overloads extends Silent {
    def onTimer(timestamp: Long): Unit = assert(timestamp > 0)
  }

  private class Handles extends Silent {
    override def onTimer(time: Long, context: OnTimerContext[Row], out: Collector[Row]): Unit = ()
  }

  private class Inherits extends Handles

  private trait Fires extends KeyedProcessFunction[Row, Row, Row] {
    override def onTimer(time: Long, context: OnTimerContext[Row], out: Collector[Row]): Unit = ()
  }

  private abstract class Generic[K, V] extends KeyedProcessFunction[K, V, V] {
    override def processElement(row: V, context: Context[K], out: Collector[V]): Unit = ()
    override def onTimer(time: Long, context: OnTimerContext[K], out: Collector[V]): Unit = ()
  }

  test("a function handles timers if it or a class of the user's below it has onTimer") {
    val deaf = Seq(new Silent, new Overloads, new Silent {})
    val able =
      Seq(new Handles, new Inherits, new Inherits {}, new Silent with Fires, new Generic[Row, Row] {})
    assert(deaf.map(handles) == deaf.map(_ => false))
    assert(able.map(handles) == able.map(_ => true))
  }

  test("a function that stays open has nothing of the task that opened it") {
    withFolder { folder =>
      val stream = new Stream(folder)
      stream.running(process(stream.input, Spec(classOf[SeesItsTask].getName))) { query =>
        (1L to 3L).foreach { v =>
          stream.add(Event("a", v, 1000))
          query.processAllAvailable()
        }
        assert(stream.rows.map(_.getLong(2)) == Seq(1, 2, 3))
        eventually {
          System.gc()
          assert(SeesItsTask.opened.get == null)
        }
      }
    }
  }

  test("map state with keys of a collation is refused") {
    val options = Map("keys" -> "k string collate UTF8_LCASE")
    val rows =
      process(frame(Seq(Event("a", 1, 1000))), Spec(classOf[KeysOfSchema].getName, options = options))
    val error = intercept[Exception](rows.collect())
    assert(
      causes(error).exists(_.matches("(?s).*MAP_KEY_COLLATION.*'seen'.*COLLATE UTF8_LCASE.*")),
      causes(error)
    )
  }

  private def handles(function: KeyedProcessFunction[Row, Row, Row]): Boolean =
    new OpenedFunction(function, null).handlesTimers
}

/** Counts the rows of a key, and notes the task that opens it. */
class SeesItsTask extends KeyedProcessFunction[Row, Row, Row] {
  private var count: ValueState[Long] = _

  override def open(context: OpenContext): Unit = {
    SeesItsTask.opened = new WeakReference(TaskContext.get())
    count = context.getState(StateDescriptor.value("count", ScalaSerializers.long))
  }

  override def processElement(row: Row, context: Context[Row], out: Collector[Row]): Unit = {
    count.update(count.valueOr(0L) + 1)
    out.collect(Row(row.get(0), "row", count.value(), 0L))
  }
}

object SeesItsTask {
  @volatile var opened: WeakReference[TaskContext] = _
}

/** Has map state with keys of a schema. */
class KeysOfSchema(options: JMap[String, String]) extends KeyedProcessFunction[Row, Row, Row] {
  override def open(context: OpenContext): Unit = {
    val keys = SparkSerializers.rows(options.get("keys"))
    context.getState(StateDescriptor.map("seen", keys, ScalaSerializers.long)): Unit
  }

  override def processElement(row: Row, context: Context[Row], out: Collector[Row]): Unit = ()
}
