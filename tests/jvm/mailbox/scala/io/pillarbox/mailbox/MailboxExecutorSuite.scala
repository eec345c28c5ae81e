package io.pillarbox.mailbox

import java.util.concurrent.{CompletableFuture, RejectedExecutionException}

import scala.collection.mutable

import io.pillarbox.mailbox.MailboxTesting._
import org.scalatest.funsuite.AnyFunSuite

class MailboxExecutorSuite extends AnyFunSuite {
  private val mailbox = new TaskMailbox(Thread.currentThread())
  private val upstream = new MailboxExecutor(mailbox, 0)
  private val downstream = new MailboxExecutor(mailbox, 1)
  private val log = mutable.Buffer.empty[String]

  private def say(what: String): ThrowingRunnable = () => log += what

  test("a yield runs mail of its own and of downstream operators, never of upstream ones") {
    log.clear()
    upstream.execute(say("upstream"), "upstream")
    downstream.execute(say("downstream"), "downstream")
    downstream.yieldMail()
    assert(!downstream.tryYield())
    assert(log == Seq("downstream"))
    upstream.yieldMail()
    assert(log == Seq("downstream", "upstream"))
  }

  test("it works as a java.util.concurrent.Executor") {
    log.clear()
    CompletableFuture.supplyAsync(() => 1).thenAcceptAsync(_ => log += "then", upstream)
    upstream.yieldMail()
    assert(log == Seq("then"))
  }

  test("what a mail of execute throws is thrown by the yield, checked or not") {
    upstream.execute(() => throw new java.io.IOException("disk"), "fails")
    assert(intercept[java.io.IOException](upstream.yieldMail()).getMessage == "disk")
  }

  test("a refused mail is a RejectedExecutionException that names the mail and the state") {
    val closing = new TaskMailbox(Thread.currentThread())
    closing.close()
    val refused = intercept[RejectedExecutionException] {
      new MailboxExecutor(closing, 0).execute(say("x"), "commit of batch 7")
    }
    assert(refused.getMessage.contains("commit of batch 7") && refused.getMessage.contains("CLOSED"))
    assert(refused.getCause.isInstanceOf[MailboxClosedException])
  }

  test("a yield is interruptible") {
    val waiting = new CompletableFuture[Thread]
    val result = start {
      val own = new TaskMailbox(Thread.currentThread())
      waiting.complete(Thread.currentThread())
      intercept[InterruptedException](new MailboxExecutor(own, 0).yieldMail())
    }
    val thread = await(waiting)
    awaitSleep(thread)
    thread.interrupt()
    assert(await(result).getMessage.contains("Interrupted"))
  }
}
