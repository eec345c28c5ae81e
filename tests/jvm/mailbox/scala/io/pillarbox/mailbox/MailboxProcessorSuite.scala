package io.pillarbox.mailbox

import java.util.concurrent.{CompletableFuture, CountDownLatch, TimeUnit}

import scala.collection.mutable

import io.pillarbox.mailbox.MailboxTesting._
import io.pillarbox.mailbox.TaskMailbox.MinPriority
import org.scalatest.funsuite.AnyFunSuite

class MailboxProcessorSuite extends AnyFunSuite {
  private val log = mutable.Buffer.empty[String]

  private def withProcessor(action: MailboxProcessor => Unit)(body: MailboxProcessor => Unit): Unit = {
    log.clear()
    body(new MailboxProcessor(controller => action(controller)))
  }

  private def send(processor: MailboxProcessor, name: String)(effect: => Unit): Unit =
    processor
      .mailboxExecutor(MinPriority)
      .execute(
        () => {
          log += name
          effect
        },
        name
      )

  test("the loop runs all due mail before each default action and ends after allActionsCompleted") {
    var rows = 0
    withProcessor { controller =>
      rows += 1
      log += s"row $rows"
      if (rows == 2) controller.allActionsCompleted()
    } { processor =>
      send(processor, "a")(())
      send(processor, "b")(())
      processor.runMailboxLoop()
      assert(log == Seq("a", "b", "row 1", "row 2"))
      processor.runMailboxLoop()
      assert(!processor.runMailboxStep())
      assert(rows == 2)
    }
  }

  test("mail that sends mail without end leaves room for the default action") {
    var rows = 0
    withProcessor { controller =>
      rows += 1
      if (rows == 100) controller.allActionsCompleted()
    } { processor =>
      def again(): Unit = send(processor, "again")(again())
      again()
      processor.runMailboxLoop()
      assert(rows == 100)
    }
  }

  test("suspend inside a mail ends the loop after that mail, and the rest of the batch is run by the next") {
    withProcessor { controller =>
      log += "row"
      controller.allActionsCompleted()
    } { processor =>
      send(processor, "a")(processor.suspend())
      send(processor, "b")(())
      processor.runMailboxLoop()
      assert(log == Seq("a"))
      processor.runMailboxLoop()
      assert(log == Seq("a", "b", "row"))
    }
  }

  test("a step runs due mail and one default action, and tells whether there was work") {
    var suspension: Option[MailboxProcessor#Suspension] = None
    withProcessor { controller =>
      log += "row"
      suspension = Some(controller.suspendDefaultAction())
    } { processor =>
      send(processor, "a")(())
      assert(processor.runMailboxStep())
      assert(log == Seq("a", "row"))
      assert(!processor.runMailboxStep())
      send(processor, "b")(())
      assert(processor.runMailboxStep())
      suspension.get.resume()
      assert(processor.runMailboxStep())
      assert(log == Seq("a", "row", "b", "row"))
    }
  }

  test(
    "while the default action is suspended the loop sleeps and still runs mail, until another thread resumes it"
  ) {
    val suspended = new CompletableFuture[MailboxProcessor#Suspension]
    val processors = new CompletableFuture[MailboxProcessor]
    val ended = start {
      var rows = 0
      val processor = new MailboxProcessor(controller => {
        rows += 1
        if (rows == 1) suspended.complete(controller.suspendDefaultAction())
        else controller.allActionsCompleted()
      })
      processors.complete(processor)
      processor.runMailboxLoop()
      rows
    }
    val suspension = await(suspended)
    val seen = new CountDownLatch(1)
    await(processors).mailboxExecutor(MinPriority).execute(() => seen.countDown(), "look")
    assert(seen.await(LimitSeconds, TimeUnit.SECONDS))
    suspension.resume()
    suspension.resume()
    assert(await(ended) == 2)
  }

  test("suspending twice is an error; a stale suspension resumes nothing") {
    val suspensions = mutable.Buffer.empty[MailboxProcessor#Suspension]
    withProcessor { controller =>
      suspensions += controller.suspendDefaultAction()
      if (suspensions.size == 1) {
        val refused = intercept[IllegalStateException](controller.suspendDefaultAction())
        assert(refused.getMessage.contains("already"))
      }
    } { processor =>
      processor.runMailboxStep()
      suspensions.head.resume()
      processor.runMailboxStep()
      assert(suspensions.size == 2 && !processor.isDefaultActionAvailable)
      suspensions.head.resume()
      assert(!processor.isDefaultActionAvailable)
      suspensions(1).resume()
      assert(processor.isDefaultActionAvailable)
    }
  }

  test("a resume from another thread after close is ignored") {
    var suspension: Option[MailboxProcessor#Suspension] = None
    withProcessor(controller => suspension = Some(controller.suspendDefaultAction())) { processor =>
      processor.runMailboxStep()
      processor.mailbox.close()
      onAnotherThread(suspension.get.resume())
    }
  }

  test("an exception in a mail leaves the loop as it is; later mail stays") {
    withProcessor(_ => ()) { processor =>
      val error = new java.io.IOException("disk")
      processor.mailboxExecutor(MinPriority).execute(() => throw error, "fails")
      send(processor, "after")(())
      assert(intercept[java.io.IOException](processor.runMailboxLoop()) eq error)
      assert(processor.mailbox.hasMail)
    }
  }

  test(
    "a throwable reported by another thread fails the loop with its cause and suppressed ones, errors too"
  ) {
    withProcessor(_ => ()) { processor =>
      val error = new LinkageError("broken")
      error.initCause(new RuntimeException("why"))
      error.addSuppressed(new RuntimeException("also"))
      onAnotherThread(processor.reportThrowable(error))
      val thrown = intercept[LinkageError](processor.runMailboxLoop())
      assert((thrown eq error) && thrown.getCause.getMessage == "why" && thrown.getSuppressed.length == 1)
    }
  }

  test("a closed mailbox refuses mail, and control of the loop is dropped or refused") {
    withProcessor(_ => ()) { processor =>
      processor.mailbox.close()
      intercept[java.util.concurrent.RejectedExecutionException](send(processor, "late")(()))
      processor.suspend()
      onAnotherThread(processor.allActionsCompleted())
      intercept[MailboxClosedException](onAnotherThread(processor.reportThrowable(new Exception)))
    }
  }

  test("the loop runs on its mailbox thread only") {
    withProcessor(_ => ()) { processor =>
      onAnotherThread(intercept[IllegalStateException](processor.runMailboxLoop()))
      onAnotherThread(intercept[IllegalStateException](processor.runMailboxStep()))
    }
  }

  test(
    "processors on one mailbox: the one that is driven runs the mail of all, and lifts another's suspension"
  ) {
    log.clear()
    val mailbox = new TaskMailbox(Thread.currentThread())
    var upstreamSuspension: Option[MailboxProcessor#Suspension] = None
    val upstream = new MailboxProcessor(
      controller => {
        log += "upstream row"
        upstreamSuspension = Some(controller.suspendDefaultAction())
      },
      mailbox
    )
    val downstream = new MailboxProcessor(_ => log += "downstream row", mailbox)
    assert(upstream.runMailboxStep())
    assert(!upstream.runMailboxStep())
    onAnotherThread(upstreamSuspension.get.resume())
    onAnotherThread(downstream.suspend())
    downstream.runMailboxLoop()
    assert(upstream.isDefaultActionAvailable && log == Seq("upstream row"))
    assert(upstream.runMailboxStep())
    assert(log == Seq("upstream row", "upstream row"))
  }

  test("a processor that waits inside another's default action runs the mail of the outer one") {
    log.clear()
    val mailbox = new TaskMailbox(Thread.currentThread())
    val inner = new MailboxProcessor(_.suspendDefaultAction(), mailbox)
    val outer = new MailboxProcessor(
      controller => {
        while (!log.contains("outer's mail")) inner.runMailboxStep()
        controller.allActionsCompleted()
      },
      mailbox
    )
    val sender = start {
      outer.mailboxExecutor(1).execute(() => log += "outer's mail", "outer's mail")
    }
    outer.runMailboxLoop()
    await(sender)
    assert(log == Seq("outer's mail"))
  }

  test("latency is sampled, from put to run") {
    withProcessor(controller => controller.allActionsCompleted()) { processor =>
      (1 to 1000).foreach(i => send(processor, i.toString)(()))
      processor.runMailboxLoop()
      val metrics = processor.mailbox.metrics
      assert(log.size == 1000)
      assert(metrics.mailboxLatency.getCount >= 1 && metrics.mailboxLatency.getSnapshot.getMax > 0)
      assert(processor.mailbox.tryTake(MinPriority) eq null)
    }
  }
}
