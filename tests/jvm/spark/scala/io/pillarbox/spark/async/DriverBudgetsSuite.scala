package io.pillarbox.spark.async

import java.nio.file.Files
import java.util.concurrent.{AbstractExecutorService, TimeUnit}
import java.util.{List => JList}

import scala.collection.mutable

import io.pillarbox.metered.budget._
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

class DriverBudgetsSuite extends AnyFunSuite {
  private val terms = BudgetTerms(Seq("calls" -> 1000.0))
  private def account(run: String) = BudgetAccount(s"q 0 $run", "q 0", run, isShared = false)

  /** Runs what it is given when the test says; waits for nothing. */
  private final class ByHand extends AbstractExecutorService {
    val tasks = mutable.Queue.empty[Runnable]
    var isDirect = false
    override def execute(task: Runnable): Unit = if (isDirect) task.run() else tasks += task
    def run(): Unit = while (tasks.nonEmpty) tasks.dequeue().run()
    override def shutdown(): Unit = ()
    override def shutdownNow(): JList[Runnable] = JList.of()
    override def isShutdown: Boolean = false
    override def isTerminated: Boolean = false
    override def awaitTermination(time: Long, unit: TimeUnit): Boolean = true
  }

  private final class Store(override val path: String) extends BudgetStore {
    var kept: Double = 0.0
    var writes = 0
    var isBroken = false
    override def read(terms: BudgetTerms): BudgetSpent = terms.nothing.copy(amounts = Vector(kept))
    override def write(terms: BudgetTerms, spent: BudgetSpent): Unit = {
      if (isBroken) throw new java.io.IOException("disk full")
      kept = spent.amounts.head
      writes += 1
    }
  }

  private final class Bench {
    val writer = new ByHand
    val budgets = new DriverBudgets(() => 0L, writer)
    val store = new Store("a")
    val grants = mutable.Buffer.empty[BudgetGrant]
    private var number = 0L

    def open(run: String): Unit = assert(budgets.open(account(run), "op", terms, Some(store)).isEmpty)

    def ask(run: String, wanted: Long, has: Double, spent: Double): Unit = {
      number += 1
      val own = terms.nothing.copy(amounts = Vector(spent))
      val report = BudgetReport(number, wanted, isWaiting = wanted > 0, 0, Vector(has), own)
      budgets.spend(account(run).key, s"p of $run", report)(grants += _)
    }
  }

  test("nothing is granted before the store has it as spent, with some more so that writes are few") {
    val bench = new Bench
    bench.open("1")
    bench.ask("1", 10, 0, 0)
    assert(bench.grants.isEmpty && bench.store.kept == 0)
    bench.writer.run()
    assert(bench.grants.map(_.ceiling.head) == Seq(10.0) && bench.store.kept == 20)
    bench.ask("1", 10, 10, 10)
    assert(bench.grants.size == 2 && bench.store.writes == 1)
  }

  test("a run that goes on after a kill counts what was written, and one after an end what was spent") {
    val bench = new Bench
    bench.open("1")
    bench.ask("1", 10, 0, 0)
    bench.writer.run()
    val killed = new DriverBudgets(() => 0L, bench.writer)
    assert(killed.open(account("2"), "op", terms, Some(bench.store)).isEmpty)
    killed.spend(
      account("2").key,
      "p",
      BudgetReport(1, 1000, isWaiting = true, 0, Vector(0.0), terms.nothing)
    )(
      bench.grants += _
    )
    bench.writer.run()
    assert(bench.grants.last.ceiling.head == 10.0 && bench.grants.last.spent.amounts.head == 20.0)
    bench.ask("1", 0, 4, 4)
    bench.writer.isDirect = true
    bench.budgets.ended("1")
    assert(bench.store.kept == 4 && bench.budgets.size == 0)
  }

  test("a run that has ended is granted nothing, and another takes over from one that was not heard to end") {
    val bench = new Bench
    bench.writer.isDirect = true
    bench.open("1")
    bench.ask("1", 10, 0, 0)
    bench.open("2")
    val before = bench.grants.size
    bench.ask("1", 10, 10, 10)
    assert(bench.grants(before).over == BudgetExceeded.NotKept)
    bench.ask("2", 1000, 0, 0)
    assert(bench.grants.last.ceiling.head == 10.0)
    bench.budgets.ended("1")
    bench.ask("2", 1000, 10, 10)
    assert(bench.grants.last.ceiling.head == 20.0)
  }

  test("what can't be written down is not granted, and the calls are told") {
    val bench = new Bench
    bench.open("1")
    bench.store.isBroken = true
    bench.ask("1", 10, 0, 0)
    bench.writer.run()
    assert(bench.grants.map(_.over) == Seq(BudgetExceeded.NotKept))
  }

  test("a name is for one set of amounts; each action counts into it") {
    val budgets = new DriverBudgets(() => 0L, new ByHand)
    def named(id: String) = BudgetAccount("named x", id, "", isShared = true)
    assert(budgets.open(named("batch"), "async_io(a)", terms, None).isEmpty)
    assert(budgets.open(named("q 0"), "async_io(b)", terms, None).isEmpty)
    val other = BudgetTerms(Seq("calls" -> 7.0))
    assert(budgets.open(named("q 1"), "async_io(c)", other, None).contains("async_io(a)"))
    assert(budgets.open(named("batch"), "async_io(d)", other, None).contains("async_io(a)"))
  }

  test(
    "a checkpoint has what was written last, beside units that are not asked for, and refuses other versions"
  ) {
    val folder = new Path(Files.createTempDirectory("budget").toString)
    val conf = new Configuration
    def kept = new CheckpointBudget(folder, "place-0", conf)
    assert(kept.read(terms) == terms.nothing)
    val first = kept
    (1 to 3).foreach(n => first.write(terms, terms.nothing.copy(amounts = Vector(n.toDouble))))
    assert(kept.read(terms).amounts == Vector(3.0))
    val both = BudgetTerms(Seq("tokens" -> 5.0, "calls" -> 1000.0))
    val second = kept
    assert(second.read(both).amounts == Vector(0.0, 3.0))
    val told =
      both.nothing.copy(amounts = Vector(1.5, 4.0), reported = Vector(1.0, 0.0), reports = Vector(2L, 0L))
    second.write(both, told)
    assert(kept.read(both) == told)
    val third = kept
    third.read(terms): Unit
    third.write(terms, terms.nothing.copy(amounts = Vector(9.0)))
    assert(kept.read(both).amounts == Vector(1.5, 9.0))
    val files = folder.getFileSystem(conf).listStatus(folder).map(_.getPath.getName)
    assert(files.filterNot(_.startsWith(".")).toSeq == Seq("place-0.5.json"))
    val out = folder.getFileSystem(conf).create(new Path(folder, "place-0.6.json"))
    out.write("{\"version\": 2}".getBytes)
    out.close()
    assert(intercept[java.io.IOException](kept.read(terms)).getMessage.contains("version 1"))
  }

  test("a budget of few dollars is written ahead by a hundredth, too") {
    val dollars = BudgetTerms(Seq("usd" -> 20.0))
    val (writer, store) = (new ByHand, new Store("a"))
    writer.isDirect = true
    val budgets = new DriverBudgets(() => 0L, writer)
    assert(budgets.open(account("1"), "op", dollars, Some(store)).isEmpty)
    (1 to 40).foreach { n =>
      val spent = dollars.nothing.copy(amounts = Vector(0.01 * n))
      budgets.spend(
        account("1").key,
        "p",
        BudgetReport(n.toLong, 0, isWaiting = false, 0, spent.amounts, spent)
      )(_ => ())
    }
    assert(store.writes > 0 && store.writes <= 3, store.writes)
  }
}
