package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import io.pillarbox.metered.budget.{BudgetAllocator, BudgetGrant, BudgetSpent}

/**
 * The account of a budget that other drivers spend, too. What is granted was written before, and was found to be
 * within the budget with what others have written. The methods that read and write are not called under `lock`,
 * the others are.
 */
private[async] final class SharedAccount(
    id: String,
    allocator: BudgetAllocator,
    store: BudgetStore,
    lock: AnyRef,
    nanoTime: () => Long
) {
  import SharedAccount._

  private val terms = allocator.terms
  private val units = 0 until terms.units
  private var written = terms.nothing.amounts
  private var isTooMuch = false
  private var spentSince = Option.empty[Long]

  private def own: BudgetSpent = allocator.own(id)

  def isWritten: Boolean = isWithin(own.amounts, written)

  private def isWithin(amounts: Seq[Double], most: Seq[Double]) =
    amounts.zip(most).forall { case (amount, bound) => amount <= bound }

  /**
   * True if the answer that nothing is left is to wait for a look: others give back what they don't use. Then all
   * processes hear for a while that it is spent.
   */
  def looksAgain(grant: BudgetGrant): Boolean = {
    val now = nanoTime()
    val seemsSpent = terms.most.indices.contains(grant.over) && othersHave(grant.over)
    if (allocator.hasGranted) spentSince = None
    else if (seemsSpent) spentSince = spentSince.filter(now - _ < SpentNanos).orElse(Some(now))
    seemsSpent && spentSince.exists(now - _ < LookNanos)
  }

  private def othersHave(at: Int) = allocator.before(id).amounts(at) > 0

  /** True if much more is written than this driver has, or anything while it has no call to come. */
  def givesBack: Boolean = {
    val amounts = own.amounts
    def isFarBelow(at: Int) =
      written(at) - amounts(at) > MostRooms * terms.mostOf(at) / DriverBudgets.WritesABudget
    val isIdle = allocator.isIdle(id) && written != amounts
    isTooMuch || isIdle || units.exists(isFarBelow)
  }

  /** Gives back what is not used, for another driver may wait for it, and learns what others have. */
  def lookAgain(): Unit =
    if (lock.synchronized(own.amounts != written)) write(room = false): Unit
    else look()

  /** Learns what others have. */
  def look(): Unit = synchronized {
    val others = store.read(terms)
    lock.synchronized(allocator.learn(id, others))
  }

  /**
   * Writes what this driver has, and may have soon with `room`, and looks what others have.
   *
   * @return false if others have had what was to be granted
   */
  def write(room: Boolean): Boolean = synchronized {
    val (has, claim) = lock.synchronized {
      val has = own
      val claim = if (room) DriverBudgets.withRoom(terms, has) else has
      // What is granted above a lower claim meanwhile waits for a write of its own.
      written = units.map(at => math.min(written(at), claim.amounts(at)))
      (has, claim)
    }
    store.write(terms, claim)
    look()
    val most = lock.synchronized {
      val others = allocator.before(id)
      units.map(at => math.max(terms.mostOf(at) - others.amounts(at), written(at)))
    }
    val fits = isWithin(has.amounts, most)
    val kept = units.map(at => math.max(has.amounts(at), math.min(claim.amounts(at), most(at))))
    // It was claimed until now, so that others have left it.
    if (kept != claim.amounts) store.write(terms, claim.copy(amounts = kept))
    lock.synchronized {
      written = kept
      isTooMuch = !fits
    }
    fits
  }
}

private object SharedAccount {

  /** Another driver gives back within that time what it does not use. */
  private val LookNanos = TimeUnit.SECONDS.toNanos(5)

  /** The time from one such look to the next. */
  private val SpentNanos = TimeUnit.MINUTES.toNanos(1)
  private final val MostRooms = 3
}
