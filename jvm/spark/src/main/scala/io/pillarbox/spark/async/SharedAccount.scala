package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import io.pillarbox.async.budget.{BudgetGrant, BudgetLedger, BudgetSpent}

/**
 * The account of a budget that other drivers spend, too. What is granted was written before, and was found to be
 * within the budget with what others have written. The methods that read and write run one after the other; the
 * others under `lock`.
 */
private[async] final class SharedAccount(
    id: String,
    ledger: BudgetLedger,
    store: BudgetStore,
    lock: AnyRef,
    nanoTime: () => Long
) {
  import SharedAccount._

  private val terms = ledger.terms
  private val units = 0 until terms.units
  private var written = terms.nothing.amounts
  private var isTooMuch = false
  private var spentSince = Option.empty[Long]

  private def own: BudgetSpent = ledger.own(id)

  def isWritten: Boolean = isWithin(own.amounts, written)

  private def isWithin(amounts: Seq[Double], most: Seq[Double]) =
    amounts.zip(most).forall { case (amount, bound) => amount <= bound }

  /** True if the answer that nothing is left is to wait for a look: others give back what they don't use. */
  def looksAgain(grant: BudgetGrant): Boolean = {
    val seemsSpent = terms.most.indices.contains(grant.over) && othersHave(grant.over)
    if (ledger.hasGranted || !seemsSpent) spentSince = None
    else if (spentSince.isEmpty) spentSince = Some(nanoTime())
    spentSince.exists(nanoTime() - _ < LookNanos)
  }

  private def othersHave(at: Int) = ledger.before(id).amounts(at) > 0

  /** True if much more is written than this driver has, or anything while it has no call to come. */
  def givesBack: Boolean = {
    val amounts = own.amounts
    def isFarBelow(at: Int) =
      written(at) - amounts(at) > MostRooms * terms.mostOf(at) / DriverBudgets.WritesABudget
    val isIdle = ledger.isIdle(id) && written != amounts
    isTooMuch || isIdle || units.exists(isFarBelow)
  }

  /** Learns what others have. */
  def look(): Unit = {
    val others = store.read(terms)
    lock.synchronized(ledger.learn(id, others))
  }

  /**
   * Writes what this driver has, and may have soon with `room`, and looks what others have.
   *
   * @return false if others have had what was to be granted
   */
  def write(room: Boolean): Boolean = {
    val has = lock.synchronized(own)
    val claim = if (room) DriverBudgets.withRoom(terms, has) else has
    store.write(terms, claim)
    look()
    val most = lock.synchronized {
      val others = ledger.before(id)
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
  private final val MostRooms = 3
}
