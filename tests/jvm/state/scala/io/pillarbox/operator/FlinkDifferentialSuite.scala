package io.pillarbox.operator

import java.time.Duration

import io.pillarbox.api.StateTtl._
import io.pillarbox.api.{ScalaSerializers, StateTtl}
import io.pillarbox.queue.MemoryOrderedByteStore
import io.pillarbox.state.rocksdb.store.RocksDBConfig
import io.pillarbox.state.rocksdb.{RocksDBFixture, RocksDBKeyedStateBackend}
import io.pillarbox.state.{KeyedStateBackend, StateClock, TestState}
import io.pillarbox.testing.FewAndMany
import io.pillarbox.timer.TimerQueues
import org.apache.flink.api.common.state.{StateTtlConfig => FlinkTtl}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.tags.Slow
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/**
 * Random scripts on our keyed process operator and on Flink's own, in Flink's own harness: the same rows,
 * values and timestamps after every step.
 *
 * Compared key by key: the timers of one time but different keys fire in a fixed order here and in any order
 * there.
 */
@Slow
class FlinkDifferentialSuite
    extends AnyFunSuite
    with ScalaCheckPropertyChecks
    with FewAndMany
    with RocksDBFixture {

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
        assert(byKey(ours.takeSideRows()) == byKey(flink.takeSideRows()), s"aside, after $step")
      }
    finally sides.foreach(_.close())
  }

  private def byKey(rows: Seq[(String, Option[Long])]): Map[String, Seq[(String, Option[Long])]] =
    rows.groupBy(_._1.takeWhile(_ != ' '))

  private val stores = Seq[(String, () => TimerQueues)](
    "heap timers" -> (() => TimerQueues.Heap),
    "timers in a byte store" -> (() => new TimerQueues.OverStores(_ => new MemoryOrderedByteStore, 2))
  )

  for ((name, queues) <- stores)
    random(s"without TTL, $name: the same firings and values as Flink", 8, 150) { scripts =>
      forAll(Script.steps, minSuccessful(scripts))(steps =>
        compare(steps, new OurSide(None, queues), new FlinkSide(None))
      )
    }

  private val flinkUpdates = Map[Update, FlinkTtl.UpdateType](
    Update.ON_CREATE_AND_WRITE -> FlinkTtl.UpdateType.OnCreateAndWrite,
    Update.ON_READ_AND_WRITE -> FlinkTtl.UpdateType.OnReadAndWrite
  )

  private val flinkVisibilities = Map[Visibility, FlinkTtl.StateVisibility](
    Visibility.NEVER_RETURN_EXPIRED -> FlinkTtl.StateVisibility.NeverReturnExpired,
    Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP -> FlinkTtl.StateVisibility.ReturnExpiredIfNotCleanedUp
  )

  private def configs(update: Update, visibility: Visibility): (StateTtl, FlinkTtl) = (
    TestState.ttl(10, update, visibility),
    FlinkTtl
      .newBuilder(Duration.ofMillis(10))
      .setUpdateType(flinkUpdates(update))
      .setStateVisibility(flinkVisibilities(visibility))
      .disableCleanupInBackground()
      .build()
  )

  for (update <- Seq[Update](Update.ON_CREATE_AND_WRITE, Update.ON_READ_AND_WRITE)) {
    random(s"with TTL, $update: the same firings and values as Flink", 8, 150) { scripts =>
      val (ours, flink) = configs(update, Visibility.NEVER_RETURN_EXPIRED)
      forAll(Script.steps, minSuccessful(scripts)) { steps =>
        compare(steps, new OurSide(Some(ours)), new FlinkSide(Some(flink)))
      }
    }

    random(s"with TTL, $update, expired values shown once: the same as Flink, lists apart", 8, 150) {
      scripts =>
        val (ours, flink) = configs(update, Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
        forAll(Script.stepsWithoutListReads, minSuccessful(scripts)) { steps =>
          compare(steps, new OurSide(Some(ours)), new FlinkSide(Some(flink)))
        }
    }
  }

  for ((name, ttl) <- Seq("without TTL" -> false, "with TTL" -> true))
    random(s"state in RocksDB, $name: the same firings and values as Flink", 3, 25) { scripts =>
      val (ours, flink) = configs(Update.ON_READ_AND_WRITE, Visibility.NEVER_RETURN_EXPIRED)
      forAll(Script.steps, minSuccessful(scripts)) { steps =>
        val side = new OurSide(Some(ours).filter(_ => ttl), newBackend = onRocksDB)
        compare(steps, side, new FlinkSide(Some(flink).filter(_ => ttl)))
      }
    }

  private def onRocksDB(clock: StateClock): KeyedStateBackend[Long] = new RocksDBKeyedStateBackend(
    ScalaSerializers.long,
    clock,
    RocksDBConfig(newDirectory(), memoryLimit = 32L << 20, cacheBytes = 16 << 10)
  )

  test("where we differ: an expired element of a list is shown once, by Flink as long as another one lives") {
    val (ours, flink) = configs(Update.ON_CREATE_AND_WRITE, Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
    val sides = Seq(new OurSide(Some(ours)), new FlinkSide(Some(flink)))
    def rows(side: ScriptSide, action: Action): Seq[String] = {
      side.element(Row(1, Seq(action)), 0)
      side.takeRows().map(_._1)
    }
    sides.foreach { side =>
      rows(side, Action.ListAdd("old"))
      side.clock(5)
      rows(side, Action.ListAdd("new"))
      side.clock(12)
    }
    assert(sides.map(rows(_, Action.ListRead)) == Seq.fill(2)(Seq("1 list old,new")))
    assert(sides.map(rows(_, Action.ListRead)) == Seq(Seq("1 list new"), Seq("1 list old,new")))
    sides.foreach(_.close())
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
