package io.pillarbox.spark.keyed

import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.{CountDownLatch, TimeUnit}

import io.pillarbox.spark.LocalSpark
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

  implicit override val patienceConfig: PatienceConfig = PatienceConfig(Span(30, Seconds))

  for (backend <- Seq("heap", "rocksdb"))
    test(s"$backend: the end of a task closes no state that another thread is reading") {
      val task = newTask(backend)
      (1 to 40).foreach { round =>
        val closed = new CountDownLatch(1)
        val stopped = new AtomicReference[Throwable]
        job.set(context => pullElsewhere(task, context, 10 * round, closed, stopped))
        spark.sparkContext.parallelize(Seq(1), 1).foreachPartition(_ => job.get()(TaskContext.get()))
        assert(closed.await(30, TimeUnit.SECONDS))
        eventually(assert(stopped.get.isInstanceOf[TaskKilledException]))
      }
    }

  /** Returns, and so ends the task, once another thread has pulled so many rows. */
  private def pullElsewhere(
      task: KeyedTask,
      context: TaskContext,
      rows: Int,
      closed: CountDownLatch,
      stopped: AtomicReference[Throwable]
  ): Unit = {
    val pulled = new CountDownLatch(rows)
    val iterator = new KeyedIterator(task, endlessInput, source(task, closed), context)
    new Thread(() =>
      try
        while (iterator.hasNext) {
          iterator.next()
          pulled.countDown()
        }
      catch { case e: Throwable => stopped.set(e) }
    ).start()
    assert(pulled.await(30, TimeUnit.SECONDS))
  }

  private def source(task: KeyedTask, closed: CountDownLatch): StateSource = new StateSource {
    private var state: PartitionState = _

    override def open(): PartitionState = {
      state = StateBackends.forStream(task.spec, task.keySchema, memoryLimit = 16L << 20)
      state
    }

    override def commit(): Unit = ()

    override def close(): Unit = {
      state.close()
      closed.countDown()
    }
  }

  private def newTask(backend: String): KeyedTask = {
    val spec = KeyedSpec.fromJson(Spec(backend = backend, timers = backend).json)
    val input = Seq(AttributeReference("k", StringType)(), AttributeReference("v", LongType)())
    val metrics = Map("numOutputRows" -> SQLMetrics.createMetric(spark.sparkContext, "rows"))
    KeyedTask(
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
      metrics,
      maxRowsPerBatch = Int.MaxValue
    )
  }

  private def endlessInput: Iterator[InternalRow] = {
    val toRow = UnsafeProjection.create(Array[DataType](StringType, LongType))
    Iterator.from(0).map(i => toRow(InternalRow(UTF8String.fromString((i % 1000).toString), i.toLong)))
  }
}

/** Tasks run in this JVM, but what they capture is serialized. */
object ForeignThreadSuite {
  private val job = new AtomicReference[TaskContext => Unit]
}
