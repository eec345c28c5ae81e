package io.pillarbox.mailbox

import java.util.concurrent.CompletableFuture
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.locks.ReentrantLock

import io.pillarbox.mailbox.MailboxTesting._
import io.pillarbox.mailbox.TaskMailbox.MinPriority
import org.scalatest.funsuite.AnyFunSuite

class MailboxHandOverSuite extends AnyFunSuite {

  private def newMailbox(): TaskMailbox = new TaskMailbox(Thread.currentThread())

  test("mail that waits goes with a mailbox that another thread takes over, in its order") {
    val mailbox = newMailbox()
    Seq("first", "second", "third", "fourth").foreach(name => mailbox.put(mail(name)))
    mailbox.createBatch()
    assert(mailbox.tryTakeFromBatch().description == "first")
    assert(mailbox.take(MinPriority).description == "second")
    val others = onAnotherThread {
      mailbox.takeOver()
      Seq.fill(2)(mailbox.take(MinPriority).description)
    }
    assert(others == Seq("third", "fourth"))
    intercept[IllegalStateException](mailbox.tryTake(MinPriority))
    mailbox.takeOver()
    assert(mailbox.tryTake(MinPriority) eq null)
  }

  test("a mailbox that is taken over wakes the thread that has it now") {
    val mailbox = newMailbox()
    val taken = new CompletableFuture[String]
    val thread = new Thread(() => {
      mailbox.takeOver()
      taken.complete(mailbox.take(MinPriority).description): Unit
    })
    thread.start()
    awaitSleep(thread)
    mailbox.put(mail("late"))
    assert(await(taken) == "late")
  }

  test("mail to any of the watched mailboxes ends the sleep, and one that came before it at once") {
    val mailboxes = Seq.fill(3)(newMailbox())
    val sleeper = new MailSleeper(Thread.currentThread())
    mailboxes.foreach { target =>
      assert(mailboxes.forall(sleeper.watch))
      val here = Thread.currentThread()
      val sent = start {
        awaitSleep(here)
        target.put(mail("wake up"))
      }
      sleeper.sleep()
      await(sent)
      assert(mailboxes.map(_.hasMail) == mailboxes.map(_ eq target))
      assert(target.runDue())
      assert(mailboxes.forall(sleeper.watch))
      target.put(mail("wake up"))
      sleeper.sleep()
      assert(target.runDue())
    }
  }

  test("a mailbox with mail is not watched") {
    val mailbox = newMailbox()
    val sleeper = new MailSleeper(Thread.currentThread())
    mailbox.put(mail("in the inbox"))
    assert(!sleeper.watch(mailbox))
    mailbox.createBatch()
    assert(!sleeper.watch(mailbox))
    mailbox.tryTakeFromBatch()
    assert(sleeper.watch(mailbox))
    sleeper.forget()
  }

  test("an interrupt ends the sleep and loses no mail") {
    val mailboxes = Seq.fill(2)(newMailbox())
    val sleeper = new MailSleeper(Thread.currentThread())
    assert(mailboxes.forall(sleeper.watch))
    val here = Thread.currentThread()
    val interrupter = start {
      awaitSleep(here)
      here.interrupt()
    }
    intercept[InterruptedException](sleeper.sleep())
    await(interrupter)
    assert(mailboxes.forall(sleeper.watch))
    here.interrupt()
    intercept[InterruptedException](sleeper.sleep())
    mailboxes.foreach(_.put(mail("still there")))
    assert(mailboxes.forall(_.runDue()))
  }

  test(
    "a mailbox that was taken over while it was watched wakes its new thread, even after the watch has ended"
  ) {
    val kept, lost = newMailbox()
    val sleeper = new MailSleeper(Thread.currentThread())
    assert(sleeper.watch(kept) && sleeper.watch(lost))
    val taken = new CompletableFuture[String]
    val thread = new Thread(() => {
      lost.takeOver()
      taken.complete(lost.take(MinPriority).description): Unit
    })
    thread.start()
    awaitSleep(thread)
    kept.put(mail("ends the watch"))
    sleeper.sleep()
    lost.put(mail("for the new thread"))
    assert(await(taken) == "for the new thread")
  }

  test("threads that take one mailbox by turns get every mail once, each writer's in order") {
    val (writers, perWriter) = (4, 20000)
    val mailbox = newMailbox()
    val turn = new ReentrantLock
    val left = new AtomicInteger(writers * perWriter)
    val seen = new Array[Int](writers)
    val readers = (1 to 3).map { most =>
      start {
        while (left.get > 0) {
          turn.lock()
          try {
            mailbox.takeOver()
            var mails = most
            while (mails > 0 && left.get > 0) {
              mailbox.take(MinPriority).run()
              left.decrementAndGet()
              mails -= 1
            }
          } finally turn.unlock()
        }
      }
    }
    val done = (0 until writers).map { writer =>
      start((0 until perWriter).foreach { number =>
        mailbox.put(
          new Mail(
            () => {
              assert(seen(writer) == number, s"mail of writer $writer out of order")
              seen(writer) += 1
            },
            0,
            s"$writer/$number"
          )
        )
      })
    }
    (done ++ readers).foreach(await(_))
    assert(seen.forall(_ == perWriter))
  }
}
