package io.pillarbox.spark.async

import java.nio.file.Files
import java.util.concurrent.{AbstractExecutorService, TimeUnit}
import java.util.{List => JList}

import scala.collection.mutable

import io.pillarbox.files.LocalFilesInProcess
import io.pillarbox.metered.budget._
import io.pillarbox.testing.FewAndMany
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** Budgets that a folder keeps: over runs, over kills, and for drivers that spend it at the same time. */
class FolderBudgetSuite extends AnyFunSuite with ScalaCheckPropertyChecks with FewAndMany {
  private val terms = BudgetTerms(Seq("calls" -> 300.0))
  LocalFilesInProcess.install(new Configuration)
  private val account = BudgetAccount("kept here", "own", "app", isShared = true)

  /** Runs what it is given when the test says. */
  private final class ByHand extends AbstractExecutorService {
    val tasks = mutable.Queue.empty[Runnable]
    override def execute(task: Runnable): Unit = tasks += task
    def run(): Unit = while (tasks.nonEmpty) tasks.dequeue().run()
    override def shutdown(): Unit = ()
    override def shutdownNow(): JList[Runnable] = JList.of()
    override def isShutdown: Boolean = false
    override def isTerminated: Boolean = false
    override def awaitTermination(time: Long, unit: TimeUnit): Boolean = true
  }

  private def withFolder(test: Path => Unit): Unit = {
    val folder = Files.createTempDirectory("budget")
    try test(new Path(folder.toUri))
    finally {
      Files.walk(folder).sorted(java.util.Comparator.reverseOrder()).forEach(Files.delete(_))
    }
  }

  /**
   * A driver with one executor. `between` runs between what it writes and what it reads.
   */
  private final class Driver(folder: Path, now: () => Long, between: () => Unit = () => ()) {
    val writer = new ByHand
    private val files = new FolderBudget(folder, new Configuration)
    private val store = new BudgetStore {
      override def path: String = files.path
      override def isShared: Boolean = true
      override def read(terms: BudgetTerms): BudgetSpent = files.read(terms)
      override def write(terms: BudgetTerms, spent: BudgetSpent): Unit = {
        files.write(terms, spent)
        between()
      }
    }
    val budgets = new DriverBudgets(now, writer)
    open()

    /** As another action does. */
    def open(): Unit = assert(budgets.open(account, "op", terms, Some(store)).isEmpty)

    private var number = 0L
    var ceiling = 0.0
    var made = 0.0
    var over = -1

    /** Asks for calls; it may make those that it is granted. */
    def ask(wanted: Long): Unit = {
      number += 1
      val asked = number
      val spent = terms.nothing.copy(amounts = Vector(made))
      val report = BudgetReport(number, wanted, isWaiting = wanted > 0, 0, Vector(ceiling), spent)
      budgets.spend(account.key, "p", report) { grant =>
        if (grant != null && asked == number) {
          ceiling = grant.ceiling.head
          over = grant.over
        }
      }
    }

    def call(): Unit = made = ceiling

    def release(): Unit = {
      ceiling = made
      ask(0)
    }
  }

  test("what a run has spent is spent for the next one, and what it was granted if it was killed") {
    withFolder { folder =>
      val first = new Driver(folder, () => 0L)
      first.ask(16)
      assert(first.ceiling == 0)
      first.writer.run()
      assert(first.ceiling > 0)
      first.call()
      first.release()
      first.writer.run()
      assert(new FolderBudget(folder, new Configuration).read(terms).amounts.head == first.made)
      first.ask(16)
      first.writer.run()
      // It is killed.
      val second = new Driver(folder, () => 0L)
      assert(second.budgets.size == 1)
      var calls = 0
      while (second.over < 0 && calls < 1000) {
        second.ask(16)
        second.writer.run()
        second.call()
        calls += 1
      }
      assert(first.ceiling + second.made <= 300 && first.made + second.made >= 280)
    }
  }

  random(
    "drivers that spend it at the same time, and are killed, never spend more, in any order of their steps",
    8,
    60
  ) { runs =>
    val step = Gen.zip(Gen.choose(0, 2), Gen.frequency(4 -> 0, 4 -> 1, 4 -> 2, 1 -> 3, 1 -> 4))
    forAll(Gen.listOfN(200, step), Gen.listOf(Gen.choose(0, 2)), minSuccessful(runs)) { (steps, others) =>
      withFolder { folder =>
        var now = 0L
        var spent = 0.0
        val drivers = mutable.Buffer.empty[Driver]
        val turns = mutable.Queue.from(others)
        // Another driver takes its turn between what one writes and what it reads.
        def between(of: Int): () => Unit = () =>
          if (turns.nonEmpty) {
            val other = turns.dequeue()
            if (other != of && drivers.size == 3) {
              drivers(other).ask(16)
              drivers(other).writer.run()
            }
          }
        (0 to 2).foreach(at => drivers += new Driver(folder, () => now, between(at)))
        steps.foreach { case (at, what) =>
          now += TimeUnit.SECONDS.toNanos(1)
          val driver = drivers(at)
          what match {
            case 0 => driver.ask(16)
            case 1 => driver.writer.run()
            case 2 => driver.call()
            case 3 => driver.release()
            case _ =>
              spent += driver.made
              drivers(at) = new Driver(folder, () => now, between(at))
          }
          assert(spent + drivers.map(_.ceiling).sum <= 300)
        }
      }
    }
  }

  test("of drivers at the same time, one uses what the other has given back") {
    withFolder { folder =>
      var now = 0L
      val (one, other) = (new Driver(folder, () => now), new Driver(folder, () => now))
      one.ask(16)
      one.writer.run()
      var rounds = 0
      while (other.over < 0 && rounds < 1000) {
        if (rounds == 20) one.release()
        one.writer.run()
        now += TimeUnit.SECONDS.toNanos(1)
        other.ask(16)
        other.writer.run()
        other.call()
        rounds += 1
      }
      assert(other.made == 300)
    }
  }

  test("what is granted while something is given back is written before") {
    withFolder { folder =>
      var between = () => ()
      val driver = new Driver(folder, () => 0L, () => between())
      def isKept = driver.ceiling <= new FolderBudget(folder, new Configuration).read(terms).amounts.head
      driver.ask(16)
      driver.writer.run()
      driver.call()
      driver.release()
      between = { () =>
        between = () => ()
        driver.ask(16)
        assert(isKept)
      }
      driver.writer.run()
      assert(driver.ceiling > driver.made && isKept)
    }
  }

  Seq("another action" -> true, "a minute" -> false).foreach { case (after, isOpened) =>
    test(s"a budget that was spent is looked at again after $after, since others give back") {
      withFolder { folder =>
        var now = 0L
        val (one, other) = (new Driver(folder, () => now), new Driver(folder, () => now))
        def spendAll(): Unit = {
          other.over = -1
          var rounds = 0
          while (other.over < 0 && rounds < 1000) {
            now += TimeUnit.SECONDS.toNanos(1)
            other.ask(16)
            other.writer.run()
            other.call()
            rounds += 1
          }
        }
        one.ask(16)
        one.writer.run()
        spendAll()
        assert(other.made < 300)
        one.release()
        one.writer.run()
        if (isOpened) other.open() else now += TimeUnit.MINUTES.toNanos(1)
        spendAll()
        assert(other.made == 300)
      }
    }
  }

  test("drivers that claim the last of it at once give back, and one of them uses it") {
    withFolder { folder =>
      var now = 0L
      var between = () => ()
      new FolderBudget(folder, new Configuration).write(terms, terms.nothing.copy(amounts = Vector(299.0)))
      val one = new Driver(folder, () => now, () => between())
      val other = new Driver(folder, () => now)
      between = () => other.writer.run()
      var rounds = 0
      while ((one.over < 0 || other.over < 0) && rounds < 1000) {
        now += TimeUnit.SECONDS.toNanos(1)
        Seq(one, other).filter(_.over < 0).foreach(_.ask(16))
        one.writer.run()
        between = () => ()
        other.writer.run()
        Seq(one, other).foreach(_.call())
        rounds += 1
      }
      assert(one.made + other.made == 1)
    }
  }
}
