package io.pillarbox.mailbox

import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{CompletableFuture, ConcurrentHashMap}

import io.pillarbox.mailbox.MailboxTesting._
import io.pillarbox.mailbox.TaskMailbox.MinPriority
import org.scalatest.funsuite.AnyFunSuite

class TaskMailboxStressSuite extends AnyFunSuite {
  private val writers = 4
  private val perWriter = 20000

  private final class Numbered(val writer: Int, val number: Int, seen: Array[Int]) extends ThrowingRunnable {
    override def run(): Unit = {
      assert(seen(writer) == number, s"mail of writer $writer out of order")
      seen(writer) += 1
    }
  }

  private def letter(writer: Int, number: Int, seen: Array[Int]): Mail =
    new Mail(new Numbered(writer, number, seen), 0, s"$writer/$number")

  private def everyMailOnceInOrder(take: TaskMailbox => Mail): Unit = {
    val mailbox = new TaskMailbox(Thread.currentThread())
    val seen = new Array[Int](writers)
    val done = (0 until writers).map { writer =>
      start((0 until perWriter).foreach { number =>
        if (number % 1000 == 0) mailbox.runExclusively(() => mailbox.put(letter(writer, number, seen)))
        else mailbox.put(letter(writer, number, seen))
      })
    }
    (0 until writers * perWriter).foreach(_ => take(mailbox).run())
    done.foreach(await(_))
    assert(seen.forall(_ == perWriter))
    assert(!mailbox.hasMail)
  }

  test("blocking takes get every mail once, each writer's in order") {
    everyMailOnceInOrder(_.take(MinPriority))
  }

  test("batches get every mail once, each writer's in order") {
    everyMailOnceInOrder { mailbox =>
      var mail = mailbox.tryTakeFromBatch()
      while (mail eq null)
        mail = if (mailbox.createBatch()) mailbox.tryTakeFromBatch() else mailbox.take(MinPriority)
      mail
    }
  }

  test("when the mailbox is closed under load each mail is run, returned or refused, and just one of these") {
    (1 to 8).foreach { round =>
      val put = ConcurrentHashMap.newKeySet[String]()
      val refused = new AtomicInteger
      val closing = new CompletableFuture[Unit]
      val mailbox = new TaskMailbox(Thread.currentThread())
      val seen = new Array[Int](writers)
      val done = (0 until writers).map { writer =>
        start {
          var number = 0
          while (refused.get < writers) {
            try {
              mailbox.put(letter(writer, number, seen))
              put.add(s"$writer/$number")
              number += 1
            } catch {
              case _: MailboxClosedException =>
                refused.incrementAndGet()
                await(closing)
            }
          }
        }
      }
      val accounted = new java.util.HashSet[String]
      (0 until round * 50).foreach(_ => assert(accounted.add(mailbox.take(MinPriority).description)))
      val foreign = if (round % 2 == 0) onAnotherThread(mailbox.close()) else java.util.List.of[Mail]()
      foreign.forEach(mail => assert(accounted.add(mail.description)))
      mailbox.close().forEach(mail => assert(accounted.add(mail.description)))
      eventually("every writer was refused")(refused.get >= writers)
      closing.complete(())
      done.foreach(await(_))
      assert(accounted == put)
    }
  }
}
