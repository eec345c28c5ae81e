package io.pillarbox.mailbox

import java.util.concurrent.{CompletableFuture, CountDownLatch}

import io.pillarbox.mailbox.MailboxTesting._
import io.pillarbox.mailbox.TaskMailbox.{MinPriority, State, UrgentBurst}
import org.scalatest.funsuite.AnyFunSuite

class TaskMailboxSuite extends AnyFunSuite {
  private def newMailbox(): TaskMailbox = new TaskMailbox(Thread.currentThread())

  private def mailboxOf(mails: Mail*): TaskMailbox = {
    val mailbox = newMailbox()
    mails.foreach(mailbox.put)
    mailbox
  }

  test("mail is taken in the order it was put") {
    val mailbox = mailboxOf(mail("a"), mail("b"), mail("c"))
    assert(Seq.fill(3)(mailbox.take(MinPriority).description) == Seq("a", "b", "c"))
    assert(mailbox.tryTake(MinPriority) eq null)
  }

  test(
    "priority filters and does not order: the oldest mail of at least the priority is taken, others keep their place"
  ) {
    val mailbox = mailboxOf(mail("low", 0), mail("high", 2), mail("higher", 3), mail("low again", 0))
    assert(mailbox.tryTake(2).description == "high")
    assert(mailbox.tryTake(3).description == "higher")
    assert(mailbox.tryTake(1) eq null)
    assert(names(mailbox.drain()) == Seq("low", "low again"))
  }

  test("priority filters inside a batch as well") {
    val mailbox = mailboxOf(mail("a", 1), mail("b", 2))
    assert(mailbox.createBatch())
    mailbox.put(mail("c", 2))
    assert(mailbox.take(2).description == "b")
    assert(mailbox.take(2).description == "c")
    assert(batchOf(mailbox) == Seq("a"))
  }

  test("urgent mail is taken before ordinary mail, in the order it was put") {
    val mailbox = mailboxOf(mail("a"), urgent("u1"), mail("b"), urgent("u2"))
    assert(names(mailbox.drain()) == Seq("u1", "u2", "a", "b"))
  }

  test("urgent mail is subject to priority like any other") {
    val mailbox = mailboxOf(urgent("upstream", 0), mail("mine", 1))
    assert(mailbox.tryTake(1).description == "mine")
    assert(mailbox.tryTake(1) eq null)
  }

  test("a batch is what there was when it was created; what comes later waits for the next") {
    val mailbox = mailboxOf(mail("a"), mail("b"))
    assert(mailbox.createBatch())
    mailbox.put(mail("c"))
    assert(mailbox.createBatch())
    assert(batchOf(mailbox) == Seq("a", "b"))
    assert(mailbox.createBatch())
    assert(batchOf(mailbox) == Seq("c"))
    assert(!mailbox.createBatch())
  }

  test("FLINK-39898: urgent mail of another thread does not overtake a batch that is handed out") {
    val mailbox = mailboxOf(mail("a"), mail("b"))
    mailbox.createBatch()
    onAnotherThread(mailbox.put(urgent("u")))
    assert(batchOf(mailbox) == Seq("a", "b"))
    mailbox.put(mail("c"))
    mailbox.createBatch()
    assert(batchOf(mailbox) == Seq("u", "c"))
  }

  test("FLINK-39898: ordinary mail behind an urgent one is in the same batch") {
    val mailbox = mailboxOf(mail("ordinary"), urgent("u"))
    assert(mailbox.createBatch())
    assert(batchOf(mailbox) == Seq("u", "ordinary"))
  }

  test("urgent mail of the mailbox thread goes to the head of the batch, behind urgent mail there") {
    val mailbox = mailboxOf(mail("a"), mail("b"))
    mailbox.createBatch()
    assert(mailbox.tryTakeFromBatch().description == "a")
    mailbox.put(urgent("u1"))
    mailbox.put(urgent("u2"))
    assert(batchOf(mailbox) == Seq("u1", "u2", "b"))
  }

  test("FLINK-39898: urgent mail that keeps sending urgent mail does not starve the batch") {
    val mailbox = mailboxOf(mail("ordinary"))
    mailbox.createBatch()
    mailbox.put(urgent("first"))
    var turns = 0
    var next = mailbox.tryTakeFromBatch()
    while (next.isUrgent) {
      turns += 1
      assert(turns <= UrgentBurst, "the ordinary mail never gets its turn")
      mailbox.put(urgent(s"after $turns"))
      next = mailbox.tryTakeFromBatch()
    }
    assert(next.description == "ordinary")
  }

  test("FLINK-39898: urgent mail that keeps coming does not starve one who yields for ordinary mail") {
    val mailbox = mailboxOf(mail("ordinary"))
    var turns = 0
    def sendAndTake(): Mail = {
      mailbox.put(urgent(s"u$turns"))
      turns += 1
      mailbox.take(MinPriority)
    }
    val taken = Iterator.continually(sendAndTake()).take(UrgentBurst + 1).map(_.description).toList
    assert(taken.contains("ordinary"))
  }

  test("a batch and single takes see the same mail, and close returns what is left") {
    val mailbox = mailboxOf(mail("a"), mail("b"), mail("c"))
    mailbox.createBatch()
    mailbox.put(mail("d"))
    mailbox.put(mail("e"))
    assert(mailbox.tryTakeFromBatch().description == "a")
    assert(mailbox.tryTake(MinPriority).description == "b")
    assert(mailbox.take(MinPriority).description == "c")
    assert(mailbox.tryTakeFromBatch() eq null)
    assert(mailbox.tryTake(MinPriority).description == "d")
    assert(names(mailbox.close()) == Seq("e"))
    assert(mailbox.close().isEmpty)
  }

  test("hasMail and size count batch, queue and inbox") {
    val mailbox = mailboxOf(mail("a"), mail("b"))
    assert(mailbox.hasMail && mailbox.size == 2)
    mailbox.createBatch()
    mailbox.put(mail("c"))
    assert(mailbox.size == 3)
    batchOf(mailbox)
    assert(mailbox.hasMail && mailbox.size == 1)
    mailbox.tryTake(MinPriority)
    assert(!mailbox.hasMail && mailbox.size == 0)
  }

  test("a quiesced mailbox refuses puts by name of its state and hands out what it has") {
    val mailbox = mailboxOf(mail("a"), mail("b"))
    mailbox.quiesce()
    val refused = intercept[MailboxClosedException](mailbox.put(mail("late")))
    assert(refused.state == State.Quiesced && refused.getMessage.contains("QUIESCED"))
    intercept[MailboxClosedException](mailbox.put(urgent("late")))
    assert(mailbox.take(MinPriority).description == "a")
    assert(mailbox.tryTake(MinPriority).description == "b")
    assert(mailbox.tryTake(MinPriority) eq null)
  }

  test("waiting on a quiesced empty mailbox is an error instead of a wait for ever") {
    val mailbox = newMailbox()
    mailbox.quiesce()
    assert(intercept[MailboxClosedException](mailbox.take(MinPriority)).state == State.Quiesced)
  }

  test("urgent mail of the mailbox thread is refused after quiesce even with a batch at hand") {
    val mailbox = mailboxOf(mail("a"))
    mailbox.createBatch()
    mailbox.quiesce()
    intercept[MailboxClosedException](mailbox.put(urgent("late")))
    assert(batchOf(mailbox) == Seq("a"))
  }

  test("a closed mailbox refuses puts and takes, and quiesce does not reopen it") {
    val mailbox = mailboxOf(mail("a"))
    assert(names(mailbox.close()) == Seq("a"))
    mailbox.quiesce()
    assert(mailbox.state == State.Closed)
    assert(intercept[MailboxClosedException](mailbox.put(mail("late"))).state == State.Closed)
    intercept[MailboxClosedException](mailbox.take(MinPriority))
    intercept[MailboxClosedException](mailbox.tryTake(MinPriority))
    intercept[MailboxClosedException](mailbox.tryTakeFromBatch())
  }

  test("close by another thread wakes the one who waits, and each mail is returned once by one of the two") {
    val opened = new CompletableFuture[(TaskMailbox, Thread)]
    val waiter = start {
      val mailbox = mailboxOf(mail("taken over", 0))
      opened.complete((mailbox, Thread.currentThread()))
      val refused = intercept[MailboxClosedException](mailbox.take(5))
      (refused.state, names(mailbox.close()))
    }
    val (mailbox, thread) = await(opened)
    awaitSleep(thread)
    mailbox.put(mail("put later", 0))
    val returnedHere = names(mailbox.close())
    val (state, returnedThere) = await(waiter)
    assert(state == State.Closed && returnedThere.contains("taken over"))
    assert((returnedHere ++ returnedThere).sorted == Seq("put later", "taken over"))
  }

  test("take sleeps until mail of its priority comes") {
    val opened = new CompletableFuture[(TaskMailbox, Thread)]
    val taken = start {
      val mailbox = newMailbox()
      opened.complete((mailbox, Thread.currentThread()))
      mailbox.take(1).description
    }
    val (mailbox, thread) = await(opened)
    awaitSleep(thread)
    mailbox.put(mail("too low", 0))
    assert(!taken.isDone)
    mailbox.put(mail("wanted", 1))
    assert(await(taken) == "wanted")
    assert(mailbox.size == 1)
  }

  test("an interrupt ends a waiting take and no mail is lost") {
    val opened = new CompletableFuture[(TaskMailbox, Thread)]
    val goOn = new CountDownLatch(1)
    val result = start {
      val mailbox = newMailbox()
      opened.complete((mailbox, Thread.currentThread()))
      intercept[InterruptedException](mailbox.take(MinPriority))
      goOn.await()
      mailbox.take(MinPriority).description
    }
    val (mailbox, thread) = await(opened)
    awaitSleep(thread)
    thread.interrupt()
    mailbox.put(mail("a"))
    goOn.countDown()
    assert(await(result) == "a")
  }

  test("an interrupt before the wait is noticed") {
    val mailbox = newMailbox()
    Thread.currentThread().interrupt()
    intercept[InterruptedException](mailbox.take(MinPriority))
    assert(!Thread.interrupted())
  }

  test("only the mailbox thread may take, and the error names both threads") {
    val mailbox = mailboxOf(mail("a"))
    val takes: Seq[TaskMailbox => Any] =
      Seq(_.hasMail, _.take(0), _.tryTake(0), _.createBatch(), _.tryTakeFromBatch(), _.drain(), _.quiesce())
    for (take <- takes) {
      val refused = onAnotherThread(intercept[IllegalStateException](take(mailbox)))
      assert(refused.getMessage.contains(Thread.currentThread().getName))
    }
    assert(names(mailbox.drain()) == Seq("a"))
  }

  test("runExclusively keeps other threads' puts out and makes a check and a put one step") {
    val mailbox = newMailbox()
    val inside = new CountDownLatch(1)
    val leave = new CountDownLatch(1)
    val section = start {
      mailbox.runExclusively { () =>
        inside.countDown()
        leave.await()
        assert(mailbox.state == State.Open)
        mailbox.put(mail("exclusive 1"))
        mailbox.runExclusively(() => mailbox.put(mail("exclusive 2")))
      }
    }
    inside.await()
    val started = new CompletableFuture[Thread]
    val other = start {
      started.complete(Thread.currentThread())
      mailbox.put(mail("other"))
    }
    awaitSleep(await(started))
    assert(mailbox.tryTake(MinPriority) eq null)
    leave.countDown()
    await(section)
    await(other)
    assert(names(mailbox.drain()) == Seq("exclusive 1", "exclusive 2", "other"))
  }

  test("the mailbox thread may put, take, quiesce and close inside runExclusively") {
    val mailbox = mailboxOf(mail("a"))
    mailbox.runExclusively { () =>
      mailbox.put(mail("b"))
      assert(names(mailbox.drain()) == Seq("a", "b"))
      mailbox.put(mail("c"))
      mailbox.quiesce()
      assert(mailbox.state == State.Quiesced)
      intercept[MailboxClosedException](mailbox.put(mail("d")))
      assert(names(mailbox.close()) == Seq("c"))
    }
    assert(mailbox.state == State.Closed)
  }

  test("a put in an exclusive section wakes the one who waits") {
    val opened = new CompletableFuture[(TaskMailbox, Thread)]
    val taken = start {
      val mailbox = newMailbox()
      opened.complete((mailbox, Thread.currentThread()))
      mailbox.take(MinPriority).description
    }
    val (mailbox, thread) = await(opened)
    awaitSleep(thread)
    mailbox.runExclusively(() => mailbox.put(mail("a")))
    assert(await(taken) == "a")
  }

  test("an exception in runExclusively leaves the mailbox usable") {
    val mailbox = newMailbox()
    intercept[ArithmeticException](mailbox.runExclusively(() => throw new ArithmeticException))
    mailbox.put(mail("a"))
    assert(onAnotherThread(mailbox.size) == 1)
  }
}
