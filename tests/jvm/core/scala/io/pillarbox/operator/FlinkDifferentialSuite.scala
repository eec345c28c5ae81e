package io.pillarbox.operator

import java.time.Duration

import io.pillarbox.queue.MemoryOrderedByteStore
import io.pillarbox.state.StateTtlConfig
import io.pillarbox.state.StateTtlConfig._
import io.pillarbox.timer.TimerQueues
import org.apache.flink.api.common.state.{StateTtlConfig => FlinkTtl}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/**
 * Random scripts on our keyed process operator and on Flink's own, in Flink's own harness: the same rows, values and
 * timestamps after every step.
 *
 * Compared key by key: the timers of one time but different keys fire in a fixed order here and in any order there.
 */
class FlinkDifferentialSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private implicit val config: PropertyCheckConfiguration = PropertyCheckConfiguration(minSuccessful = 150)

  private def compare(steps: List[Step], ours: ScriptSide, flink: ScriptSide): Unit = {
    var (watermark, clock) = (0L, 0L)
    val sides = Seq(ours, flink)
    try
      steps.foreach { step =>
        step match {
          case Step.Element(row, timestamp) => sides.foreach(_.element(row, timestamp))
          case Step.Watermark(by) =>
            watermark += by
            sides.foreach(_.watermark(watermark))
          case Step.Clock(by) =>
            clock += by
            sides.foreach(_.clock(clock))
          case Step.Restart =>
            sides.foreach(_.restart(clock))
            // Flink's operator forgets its watermark over a restart, ours doesn't: give it to both again.
            sides.foreach(_.watermark(watermark))
        }
        // Flink's test clock fires a timer for a passed time only when it is set, ours and Flink's real one at once.
        sides.foreach(_.clock(clock))
        assert(byKey(ours.takeRows()) == byKey(flink.takeRows()), s"after $step")
      }
    finally sides.foreach(_.close())
  }

  private def byKey(rows: Seq[(String, Option[Long])]): Map[String, Seq[(String, Option[Long])]] =
    rows.groupBy(_._1.takeWhile(_ != ' '))

  private val stores = Seq[(String, () => TimerQueues)](
    "heap timers" -> (() => TimerQueues.Heap),
    "timers in a byte store" -> (() => TimerQueues.overStore(_ => new MemoryOrderedByteStore, 2))
  )

  for ((name, queues) <- stores)
    test(s"without TTL, $name: the same firings and values as Flink") {
      forAll(Script.steps)(steps => compare(steps, new OurSide(None, queues), new FlinkSide(None)))
    }

  private val flinkUpdates = Map[UpdateType, FlinkTtl.UpdateType](
    OnCreateAndWrite -> FlinkTtl.UpdateType.OnCreateAndWrite,
    OnReadAndWrite -> FlinkTtl.UpdateType.OnReadAndWrite
  )

  for (update <- Seq[UpdateType](OnCreateAndWrite, OnReadAndWrite))
    test(s"with TTL, $update: the same firings and values as Flink") {
      forAll(Script.steps) { steps =>
        val ours = StateTtlConfig(10, update, NeverReturnExpired, cleanup = CleanupStrategies.none)
        val flink = FlinkTtl
          .newBuilder(Duration.ofMillis(10))
          .setUpdateType(flinkUpdates(update))
          .setStateVisibility(FlinkTtl.StateVisibility.NeverReturnExpired)
          .disableCleanupInBackground()
          .build()
        compare(steps, new OurSide(Some(ours), () => TimerQueues.Heap), new FlinkSide(Some(flink)))
      }
    }

  test("where we differ: a round of timers passes equal times on in a fixed order of keys") {
    val orders = for (keys <- Seq(1L, 2L, 3L, 4L, 5L).permutations.take(20)) yield {
      val ours = new OurSide(None, () => TimerQueues.Heap)
      keys.foreach(key => ours.element(Row(key, Seq(Action.EventTimer(7))), 0))
      ours.watermark(7)
      val rows = ours.takeRows()
      ours.close()
      rows
    }
    val all = orders.toSet
    assert(all.size == 1 && all.head.size == 5)
  }
}
