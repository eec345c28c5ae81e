package io.pillarbox.spark.async

import io.pillarbox.metered.budget._
import io.pillarbox.metered.lease._
import io.pillarbox.metered.limit.{Feedback, LimitTerms}

/**
 * What executors and the driver say to each other of limits and budgets, in longs: the fields in their order,
 * those of an option or a sequence after their number.
 */
private[async] object LendingMessages {
  private final val OfLimit = 1L
  private final val OfBudget = 2L

  def write(sent: Sent): Array[Long] =
    longs(sent.part, if (sent.report.isInstanceOf[LimitReport]) OfLimit else OfBudget, sent.report)

  def read(name: String, message: Array[Long]): Sent = {
    val in = new Reader(message)
    Sent(name, in.long(), if (in.long() == OfLimit) in.limitReport() else in.budgetReport())
  }

  def write(answer: Grants): Array[Long] = longs(
    answer.gapNanos,
    answer.grants.map(_.map(grant => (if (grant.isInstanceOf[LimitGrant]) OfLimit else OfBudget, grant)))
  )

  def read(message: Array[Long]): Grants = {
    val in = new Reader(message)
    Grants(
      in.long(),
      in.sequence(in.option(if (in.long() == OfLimit) in.limitGrant() else in.budgetGrant()))
    )
  }

  private def longs(values: Any*): Array[Long] = {
    val longs = Array.newBuilder[Long]
    def add(value: Any): Unit = value match {
      case number: Long => longs += number
      case number: Int => longs += number.toLong
      case number: Double => longs += java.lang.Double.doubleToLongBits(number)
      case flag: Boolean => longs += (if (flag) 1L else 0L)
      case option: Option[_] =>
        longs += option.size.toLong
        option.foreach(add)
      case sequence: Seq[_] =>
        longs += sequence.size.toLong
        sequence.foreach(add)
      case fields: Product => fields.productIterator.foreach(add)
      case other => throw new IllegalArgumentException(s"No field of a message: $other")
    }
    values.foreach(add)
    longs.result()
  }

  private final class Reader(longs: Array[Long]) {
    private var at = 0

    def long(): Long = {
      at += 1
      longs(at - 1)
    }
    def int(): Int = long().toInt
    def flag(): Boolean = long() == 1L
    def double(): Double = java.lang.Double.longBitsToDouble(long())
    def option[A](one: => A): Option[A] = Option.when(flag())(one)
    def sequence[A](one: => A): IndexedSeq[A] = IndexedSeq.fill(int())(one)
    private def doubles() = sequence(double())

    def limitReport(): LimitReport = LimitReport(
      option(LimitValue(long(), long())),
      LimitTerms(int(), flag(), double(), long()),
      long(),
      long(),
      int(),
      int(),
      flag(),
      int(),
      long(),
      long(),
      use()
    )

    private def use() = AmountUse(
      double(),
      sequence(Returned(long(), double(), flag())),
      double(),
      double(),
      long(),
      option(Feedback(double(), long()))
    )

    def limitGrant(): LimitGrant =
      LimitGrant(int(), long(), long(), AmountGrant(double(), long(), double()))

    def budgetReport(): BudgetReport = BudgetReport(long(), long(), flag(), long(), doubles(), spent())

    def budgetGrant(): BudgetGrant = BudgetGrant(int(), doubles(), spent(), long())

    private def spent() = BudgetSpent(long(), long(), doubles(), doubles(), sequence(long()))
  }
}
