package io.pillarbox.mailbox

import io.pillarbox.mailbox.MailboxTesting._
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** Random operations of one thread, against a mailbox of plain immutable sequences. */
class TaskMailboxModelSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  override implicit val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 300, sizeRange = 80)

  private case class Letter(name: String, priority: Int, urgent: Boolean)

  private sealed trait Op
  private case class Put(priority: Int, isUrgent: Boolean) extends Op
  private case class TryTake(priority: Int) extends Op
  private case object CreateBatch extends Op
  private case object TakeFromBatch extends Op

  /** Bursts are left to their own tests: here no more urgent mail comes than may overtake. */
  private case class Model(batch: Seq[Letter], queue: Seq[Letter]) {
    private def sorted: Seq[Letter] = queue.filter(_.urgent) ++ queue.filterNot(_.urgent)

    def put(letter: Letter): Model =
      if (letter.urgent && batch.nonEmpty) {
        val (urgent, rest) = batch.span(_.urgent)
        copy(batch = (urgent :+ letter) ++ rest)
      } else copy(queue = queue :+ letter)

    def tryTake(priority: Int): (Option[Letter], Model) =
      batch.find(_.priority >= priority) match {
        case found @ Some(letter) => (found, copy(batch = batch.filterNot(_ eq letter)))
        case None =>
          val found = sorted.find(_.priority >= priority)
          (found, copy(queue = queue.filterNot(l => found.exists(_ eq l))))
      }

    def createBatch: Model = if (batch.nonEmpty) this else Model(sorted, Seq.empty)

    def takeFromBatch: (Option[Letter], Model) = (batch.headOption, copy(batch = batch.drop(1)))
  }

  private val put = for {
    priority <- Gen.choose(-1, 3)
    isUrgent <- Gen.frequency(8 -> false, 2 -> true)
  } yield Put(priority, isUrgent)

  private val op: Gen[Op] = Gen.frequency(
    6 -> put,
    3 -> Gen.choose(-1, 3).map(TryTake(_)),
    2 -> Gen.const(CreateBatch),
    3 -> Gen.const(TakeFromBatch)
  )

  test("takes, batches and drains agree with the model") {
    forAll(Gen.listOf(op)) { ops =>
      val mailbox = new TaskMailbox(Thread.currentThread())
      val end = ops.zipWithIndex.foldLeft(Model(Seq.empty, Seq.empty)) { case (model, (op, index)) =>
        val next = step(mailbox, model, op, s"m$index")
        assert(mailbox.size == next.batch.size + next.queue.size)
        assert(mailbox.hasMail == (mailbox.size > 0))
        next
      }
      val (urgent, ordinary) = end.queue.partition(_.urgent)
      assert(names(mailbox.drain()) == (end.batch ++ urgent ++ ordinary).map(_.name))
    }
  }

  private def step(mailbox: TaskMailbox, model: Model, op: Op, name: String): Model = op match {
    case Put(priority, isUrgent) =>
      mailbox.put(if (isUrgent) urgent(name, priority) else mail(name, priority))
      model.put(Letter(name, priority, isUrgent))
    case TryTake(priority) => same(mailbox.tryTake(priority), model.tryTake(priority))
    case TakeFromBatch => same(mailbox.tryTakeFromBatch(), model.takeFromBatch)
    case CreateBatch =>
      val next = model.createBatch
      assert(mailbox.createBatch() == next.batch.nonEmpty)
      next
  }

  private def same(taken: Mail, expected: (Option[Letter], Model)): Model = {
    assert(Option(taken).map(_.description) == expected._1.map(_.name))
    expected._2
  }
}
