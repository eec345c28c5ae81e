package io.pillarbox.spark.keyed

import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.{CountDownLatch, TimeUnit}

import io.pillarbox.spark.LocalSpark
import io.pillarbox.spark.base.{PythonText, SpecJson}
import io.pillarbox.spark.keyed.jvm.JvmKeyedOperator
import io.pillarbox.spark.state.{PartitionState, StateBackends, StateSource}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, UnsafeProjection}
import org.apache.spark.sql.execution.metric.SQLMetrics
import org.apache.spark.sql.types.{DataType, LongType, StringType}
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.{TaskContext, TaskKilledException}
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

/** Rows of a keyed operator that a thread of Spark's pulls while the task ends on its own. */
class ForeignThreadSuite extends AnyFunSuite with LocalSpark with Eventually {
  import ForeignThreadSuite._

  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(30, Seconds))

  for (backend <- Seq("heap", "rocksdb")) {
    test(s"$backend: the end of a task that fails closes no state that another thread is reading") {
      val task = newTask(backend)
      (1 to 40).foreach { round =>
        val closed = new CountDownLatch(1)
        val stopped = new AtomicReference[Throwable]
        run { context =>
          pullElsewhere(task, context, Iterator.from(0), 10 * round, source(task, closed), stopped)
          throw new IllegalStateException("a task that fails")
        }
        assert(closed.await(30, TimeUnit.SECONDS))
        eventually(assert(stopped.get.isInstanceOf[TaskKilledException]))
      }
    }

    test(s"$backend: a task that ends before another thread has pulled all rows processes and commits all") {
      val closed, committed = new CountDownLatch(1)
      val input = (0 until 20000).iterator
      val task = newTask(backend)
      run(
        pullElsewhere(task, _, input, 10, source(task, closed, committed), new AtomicReference, stopsAt = 10)
      )
      assert(committed.getCount == 0 && closed.getCount == 0 && input.isEmpty)
    }
  }

  test("rows that nobody asks for are processed at the end of a task, unless it fails") {
    val closed, committed = new CountDownLatch(1)
    val input, left = (0 until 100).iterator
    val task = newTask("heap")
    run(context => new KeyedIterator(task, rowsOf(input), source(task, closed, committed), context): Unit)
    assert(committed.getCount == 0 && closed.getCount == 0 && input.isEmpty)
    run { context =>
      new KeyedIterator(task, rowsOf(left), source(task, closed), context)
      throw new IllegalStateException("a task that fails")
    }
    assert(left.hasNext)
  }

  test("from the commit on the state is not the task's, and another thread may use it at once") {
    val task = newTask("heap")
    val problem = new AtomicReference[Throwable]
    run { context =>
      val taken, ended = new CountDownLatch(1)
      val state = StateBackends.forStream(task.spec.storage, task.keySchema, memoryLimit = 16L << 20)
      val maintenance = new Thread(() =>
        try {
          state.takeOver()
          taken.countDown()
          assert(ended.await(30, TimeUnit.SECONDS))
          state.backend.checkThread()
        } catch { case e: Throwable => problem.set(e) }
      )
      val source = new StateSource {
        override def open(): PartitionState = state
        override def commit(): Unit = {
          maintenance.start()
          assert(taken.await(30, TimeUnit.SECONDS))
        }
        override def close(): Unit = ()
      }
      new KeyedIterator(task, rowsOf(Iterator.range(0, 10)), source, context).foreach(_ => ())
      ended.countDown()
      maintenance.join()
      state.close()
    }
    assert(problem.get == null)
  }

  /** Runs `body` in the first attempt of a task; others do nothing. */
  private def run(body: TaskContext => Unit): Unit = {
    job.set(context => if (context.attemptNumber() == 0) body(context))
    spark.sparkContext.parallelize(Seq(1), 1).foreachPartition(_ => job.get()(TaskContext.get()))
  }

  /** Returns, and so ends the task, once another thread has pulled so many rows. */
  private def pullElsewhere(
      task: KeyedTaskSpec,
      context: TaskContext,
      input: Iterator[Int],
      rows: Int,
      source: StateSource,
      stopped: AtomicReference[Throwable],
      stopsAt: Int = Int.MaxValue
  ): Unit = {
    val pulled = new CountDownLatch(rows)
    var left = stopsAt
    val iterator = new KeyedIterator(task, rowsOf(input), source, context)
    new Thread(() =>
      try
        while (left > 0 && iterator.hasNext) {
          iterator.next()
          left -= 1
          pulled.countDown()
        }
      catch { case e: Throwable => stopped.set(e) }
    ).start()
    assert(pulled.await(30, TimeUnit.SECONDS))
  }

  private def source(
      task: KeyedTaskSpec,
      closed: CountDownLatch,
      committed: CountDownLatch = new CountDownLatch(1)
  ): StateSource = new StateSource {
    private var state: PartitionState = _

    override def open(): PartitionState = {
      state = StateBackends.forStream(task.spec.storage, task.keySchema, memoryLimit = 16L << 20)
      state
    }

    override def commit(): Unit = committed.countDown()

    override def close(): Unit = {
      state.close()
      closed.countDown()
    }
  }

  private def newTask(backend: String): KeyedTaskSpec = {
    val spec = SpecJson.read[KeyedSpec](Spec(backend = backend, timers = backend).json)
    val input = Seq(AttributeReference("k", StringType)(), AttributeReference("v", LongType)())
    val metrics = Map("numOutputRows" -> SQLMetrics.createMetric(spark.sparkContext, "rows"))
    KeyedTaskSpec(
      spec,
      JvmKeyedOperator.Factory(spec.className.get, Map.empty),
      input,
      keys = input.take(1),
      timestamp = None,
      orderBy = Nil,
      isBatch = false,
      hasWatermark = false,
      lateWatermark = Long.MinValue,
      watermark = Long.MinValue,
      batchTime = 0,
      timeZone = "UTC",
      text = PythonText(show = true, redaction = "password"),
      metrics,
      maxRowsPerBatch = Int.MaxValue
    )
  }

  private def rowsOf(numbers: Iterator[Int]): Iterator[InternalRow] = {
    val toRow = UnsafeProjection.create(Array[DataType](StringType, LongType))
    numbers.map(i => toRow(InternalRow(UTF8String.fromString((i % 1000).toString), i.toLong)))
  }
}

/** Tasks run in this JVM, but what they capture is serialized. */
object ForeignThreadSuite {
  private val job = new AtomicReference[TaskContext => Unit]
}
