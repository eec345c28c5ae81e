package io.pillarbox.bench

import io.pillarbox.async.{AsyncOptions, AsyncWaitOperator}
import io.pillarbox.api.{AsyncFunction, ResultFuture}
import java.util
import java.util.concurrent.{ExecutorService, Executors}

import io.pillarbox.mailbox.{MailboxExecutor, SystemProcessingTimeService, TaskMailbox}
import org.apache.flink.api.common.typeutils.base.LongSerializer
import org.apache.flink.streaming.api.datastream.AsyncDataStream.OutputMode
import org.apache.flink.streaming.api.functions.async.{
  AsyncFunction => FlinkFunction,
  ResultFuture => FlinkFuture
}
import org.apache.flink.streaming.api.operators.async.AsyncWaitOperatorFactory
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness

/** An async operator whose calls are answered at once, on the mailbox thread or by a pool of one thread. */
trait AsyncOperatorPeer extends AutoCloseable {

  /** Takes a record in; waits for room by running mail. */
  def process(): Unit
  def emitted: Long
}

object AsyncOperatorPeer {
  private val Row = java.lang.Long.valueOf(7)
  private val Rows = util.Collections.singletonList(Row)

  def of(name: String, ordered: Boolean, capacity: Int, onPool: Boolean): AsyncOperatorPeer = {
    val pool = if (onPool) Some(Executors.newSingleThreadExecutor()) else None
    if (name == "flink") new OfFlink(ordered, capacity, pool) else new OfPillarbox(ordered, capacity, pool)
  }

  private final class OfFlink(ordered: Boolean, capacity: Int, pool: Option[ExecutorService])
      extends AsyncOperatorPeer {
    private val function: FlinkFunction[java.lang.Long, java.lang.Long] = pool match {
      case Some(p) =>
        (_: java.lang.Long, future: FlinkFuture[java.lang.Long]) => p.execute(() => future.complete(Rows))
      case None => (_: java.lang.Long, future: FlinkFuture[java.lang.Long]) => future.complete(Rows)
    }
    private val output = new FlinkOutput
    private val harness = new OneInputStreamOperatorTestHarness[java.lang.Long, java.lang.Long](
      new AsyncWaitOperatorFactory(
        function,
        0L,
        capacity,
        if (ordered) OutputMode.ORDERED else OutputMode.UNORDERED
      ),
      LongSerializer.INSTANCE
    )
    harness.setOutputCreator(_ => output)
    harness.setup(LongSerializer.INSTANCE)
    harness.open()
    private val operator = harness.getOneInputOperator

    override def process(): Unit = operator.processElement(new StreamRecord(Row, 1L))
    override def emitted: Long = output.count
    override def close(): Unit = pool.foreach(_.shutdownNow())
  }

  private final class OfPillarbox(ordered: Boolean, capacity: Int, pool: Option[ExecutorService])
      extends AsyncOperatorPeer {
    private val function: AsyncFunction[java.lang.Long, java.lang.Long] = pool match {
      case Some(p) =>
        (_: java.lang.Long, future: ResultFuture[java.lang.Long]) => p.execute(() => future.complete(Rows))
      case None => (_: java.lang.Long, future: ResultFuture[java.lang.Long]) => future.complete(Rows)
    }
    private val output = new PillarboxOutput
    private val executor = new MailboxExecutor(new TaskMailbox(Thread.currentThread()), 0)
    private val operator = new AsyncWaitOperator(
      function,
      AsyncOptions[java.lang.Long, java.lang.Long](ordered, capacity),
      executor,
      new SystemProcessingTimeService(executor),
      output
    )
    operator.open()

    override def process(): Unit = operator.processElement(Row, 1L)
    override def emitted: Long = output.count
    override def close(): Unit = pool.foreach(_.shutdownNow())
  }
}
