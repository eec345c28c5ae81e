package io.pillarbox.spark.keyed.jvm

import io.pillarbox.api.KeyedProcessFunction.{Context, OnTimerContext}
import io.pillarbox.api.{Collector, KeyedProcessFunction}
import org.apache.spark.sql.Row
import org.scalatest.funsuite.AnyFunSuite

class OpenedFunctionSuite extends AnyFunSuite {

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

  private def handles(function: KeyedProcessFunction[Row, Row, Row]): Boolean =
    new OpenedFunction(function, null).handlesTimers
}
