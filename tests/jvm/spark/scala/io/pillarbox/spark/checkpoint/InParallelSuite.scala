package io.pillarbox.spark.checkpoint

import java.util.concurrent.{CompletableFuture, CountDownLatch, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

class InParallelSuite extends AnyFunSuite {

  test("who is interrupted goes on only when no read is under way any more") {
    val begun, mayEnd = new CountDownLatch(1)
    @volatile var ended = false
    def read(): Unit = {
      begun.countDown()
      // As a file system that does not hear of the interrupt.
      while (mayEnd.getCount > 0)
        try mayEnd.await()
        catch { case _: InterruptedException => () }
      ended = true
    }
    val told = new CompletableFuture[(Throwable, Boolean)]
    val task = new Thread(() =>
      try InParallel(Seq(() => read())): Unit
      catch { case problem: Throwable => told.complete(problem -> ended): Unit }
    )
    task.start()
    assert(begun.await(1, TimeUnit.MINUTES))
    task.interrupt()
    task.join(50)
    assert(!told.isDone)
    mayEnd.countDown()
    val (problem, hadEnded) = told.get(1, TimeUnit.MINUTES)
    assert(problem.isInstanceOf[InterruptedException] && hadEnded)
  }
}
