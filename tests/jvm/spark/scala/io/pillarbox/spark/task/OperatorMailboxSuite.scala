package io.pillarbox.spark.task

import java.util.concurrent.atomic.{AtomicBoolean, AtomicReference}
import java.util.concurrent.{CompletableFuture, CountDownLatch, TimeUnit}

import io.pillarbox.mailbox.{MailboxExecutor, MailboxProcessor}
import io.pillarbox.spark.LocalSpark
import org.apache.spark.{TaskContext, TaskKilledException}
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

class OperatorMailboxSuite extends AnyFunSuite with LocalSpark with Eventually {
  import OperatorMailboxSuite._

  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(30, Seconds))

  test("the end of the task closes what is open, last first, and lets nobody in afterwards") {
    val operatorMailbox = inTask { context =>
      val operatorMailbox = OperatorMailboxes.newMailbox(context)
      operatorMailbox.enter()
      operatorMailbox.closeAtEnd(resource("first"))
      operatorMailbox.closeAtEnd(resource("second"))
      operatorMailbox.leave()
      operatorMailbox
    }
    assert(log.get == Seq("close second", "close first"))
    intercept[TaskKilledException](operatorMailbox.enter())
  }

  test("a mailbox that is finished closes what is open at once, and only then") {
    inTask { context =>
      val operatorMailbox = OperatorMailboxes.newMailbox(context)
      operatorMailbox.enter()
      operatorMailbox.closeAtEnd(resource("it"))
      operatorMailbox.finish()
      record("the task goes on")
      operatorMailbox.leave()
    }
    assert(log.get == Seq("close it", "the task goes on"))
  }

  test(
    "a thread that sleeps in a mailbox is woken by the end of the task, which closes only after it has left"
  ) {
    val ended = new CompletableFuture[Throwable]
    inTask { context =>
      val operatorMailbox = OperatorMailboxes.newMailbox(context)
      val processor = idle(operatorMailbox)
      val thread = new Thread(() => {
        operatorMailbox.enter()
        operatorMailbox.closeAtEnd(resource("it"))
        try while (true) operatorMailbox.step(processor)
        catch { case e: Throwable => ended.complete(e) }
        finally {
          record("leave")
          operatorMailbox.leave()
        }
      })
      thread.start()
      eventually(assert(thread.getState == Thread.State.WAITING))
    }
    assert(ended.get(30, TimeUnit.SECONDS).isInstanceOf[TaskKilledException])
    eventually(assert(log.get.filter(_ != "abort it") == Seq("leave", "close it")))
  }

  test("a thread that does not leave in time closes what is open when it does") {
    val isIn, mayLeave = new CountDownLatch(1)
    val thread = new AtomicReference[Thread]
    inTask { context =>
      val operatorMailbox = OperatorMailboxes.newMailbox(context, endTimeoutMs = 20)
      thread.set(new Thread(() => {
        operatorMailbox.enter()
        operatorMailbox.closeAtEnd(resource("it"))
        isIn.countDown()
        mayLeave.await()
        operatorMailbox.leave()
      }))
      thread.get.start()
      isIn.await()
    }
    assert(log.get == Seq("abort it"))
    mayLeave.countDown()
    thread.get.join(30000)
    assert(log.get == Seq("abort it", "close it"))
  }

  test("a resource that comes after the end of the task is closed, and its thread told") {
    val isIn, mayGoOn = new CountDownLatch(1)
    val told = new CompletableFuture[Throwable]
    inTask { context =>
      val operatorMailbox = OperatorMailboxes.newMailbox(context, endTimeoutMs = 20)
      new Thread(() => {
        operatorMailbox.enter()
        isIn.countDown()
        mayGoOn.await()
        try operatorMailbox.closeAtEnd(resource("late"))
        catch { case e: Throwable => told.complete(e) }
        finally operatorMailbox.leave()
      }).start()
      isIn.await()
    }
    mayGoOn.countDown()
    assert(told.get(30, TimeUnit.SECONDS).isInstanceOf[TaskKilledException])
    eventually(assert(log.get == Seq("close late")))
  }

  test("whoever takes a mailbox over is made its owner first") {
    val owners = inTask { context =>
      val operatorMailbox = OperatorMailboxes.newMailbox(context)
      val owners = new java.util.concurrent.ConcurrentLinkedQueue[Thread]
      operatorMailbox.enter()
      operatorMailbox.onHandOver(() => owners.add(Thread.currentThread()): Unit)
      operatorMailbox.leave()
      val other = new Thread(() =>
        (1 to 2).foreach { _ =>
          operatorMailbox.enter()
          assert(operatorMailbox.mailbox.isMailboxThread)
          operatorMailbox.leave()
        }
      )
      other.start()
      other.join()
      operatorMailbox.enter()
      operatorMailbox.leave()
      assert(owners.toArray.toSeq == Seq(other, Thread.currentThread()))
      owners.size
    }
    assert(owners == 2)
  }

  test(
    "a thread that sleeps in one mailbox runs the mail of the others that it pulled last, and no other's"
  ) {
    inTask { context =>
      val mailboxes = Seq.fill(3)(OperatorMailboxes.newMailbox(context))
      mailboxes.foreach { operatorMailbox =>
        operatorMailbox.enter()
        operatorMailbox.leave()
      }
      val Seq(slept, served, lost) = mailboxes
      val other = new Thread(() => {
        lost.enter()
        lost.leave()
      })
      other.start()
      other.join()
      val ran = new AtomicReference(Seq.empty[String])
      def send(operatorMailbox: OperatorMailbox, name: String): Unit =
        new MailboxExecutor(operatorMailbox.mailbox, 0).execute(() => ran.set(ran.get :+ name), name)
      slept.enter()
      val here = Thread.currentThread()
      val sender = new Thread(() => {
        eventually(assert(here.getState == Thread.State.WAITING))
        send(lost, "lost")
        send(served, "served")
      })
      sender.start()
      val processor = idle(slept)
      while (ran.get.isEmpty) slept.step(processor)
      sender.join()
      slept.stepWithoutWaiting(processor)
      slept.leave()
      assert(ran.get == Seq("served"))
    }
  }

  test("mail of a mailbox is never run while another thread is inside") {
    val rounds = 2000
    inTask { context =>
      val shared, own = OperatorMailboxes.newMailbox(context)
      val inside = new AtomicBoolean
      val problems, runs = new java.util.concurrent.atomic.AtomicInteger
      def alone(): Unit = {
        if (!inside.compareAndSet(false, true)) problems.incrementAndGet()
        Thread.onSpinWait()
        inside.set(false)
      }
      val executor = idle(shared).mailboxExecutor(0)
      val puller = new Thread(() =>
        (1 to rounds).foreach { _ =>
          shared.enter()
          alone()
          shared.leave()
        }
      )
      shared.enter()
      shared.leave()
      own.enter()
      puller.start()
      val processor = idle(own)
      (1 to rounds).foreach { round =>
        executor.execute(
          () => {
            alone()
            runs.incrementAndGet(): Unit
          },
          round.toString
        )
        own.stepWithoutWaiting(processor)
        if (round % 10 == 0) {
          shared.enter()
          shared.stepWithoutWaiting(idle(shared))
          shared.leave()
        }
      }
      puller.join()
      own.leave()
      shared.enter()
      shared.stepWithoutWaiting(idle(shared))
      shared.leave()
      assert(problems.get == 0 && runs.get == rounds)
    }
  }

  private def idle(operatorMailbox: OperatorMailbox): MailboxProcessor =
    new MailboxProcessor(controller => controller.suspendDefaultAction(): Unit, operatorMailbox.mailbox)

  /** Runs `body` in a task of its own and gives back, after the task's end, what it returned. */
  private def inTask[A](body: TaskContext => A): A = {
    log.set(Nil)
    result.set(null)
    val run = body
    job.set(context => result.set(run(context)))
    spark.sparkContext.parallelize(Seq(1), 1).foreachPartition(_ => job.get()(TaskContext.get()))
    result.get.asInstanceOf[A]
  }
}

/** Tasks run in this JVM, but what they capture is serialized. */
object OperatorMailboxSuite {
  private val log = new AtomicReference(Seq.empty[String])
  private val job = new AtomicReference[TaskContext => Unit]
  private val result = new AtomicReference[Any]

  private def record(what: String): Unit = log.updateAndGet(_ :+ what): Unit

  private def resource(name: String): MailboxResource = new MailboxResource {
    override def close(): Unit = record(s"close $name")
    override def abort(): Unit = record(s"abort $name")
  }
}
