package io.pillarbox.spark.async

import java.util.concurrent.ExecutorService

import scala.collection.mutable
import scala.util.control.NonFatal

import io.pillarbox.metered.budget._

/** Keeps what an account of a budget has spent. Called by one thread at a time; may block. */
private[pillarbox] trait BudgetStore {

  /** The store's place, as messages and comparisons have it. */
  def path: String

  /** The amounts that were written last, by unit, with those that are not in `terms`. */
  def read(terms: BudgetTerms): BudgetSpent

  /** Writes amounts in the place of earlier ones; they are there as a whole, or it throws. */
  def write(terms: BudgetTerms, spent: BudgetSpent): Unit

  /** True if other drivers spend of it, too: then `read` has their amounts, and `write` takes one's own. */
  def isShared: Boolean = false
}

/**
 * An account of a budget.
 *
 * @param budget the budget, which may have several accounts
 * @param id the account's name in the budget's allocator
 * @param run the run of a streaming query, with which it ends, or the action or application of a batch
 * @param isShared true if the budget goes on without this account
 */
private[pillarbox] final case class BudgetAccount(
    budget: String,
    id: String,
    run: String,
    isShared: Boolean
) {

  /** Names it in messages. */
  def key: String = s"$budget $id $run"
}

/**
 * The driver's budgets. Thread-safe.
 *
 * An account with a store is written ahead: no executor is granted more than the store has as spent. So that
 * writes are few, a hundredth of the budget is written with them. A run that goes on from the store after a
 * kill counts that as spent; at the end of a run what was spent is written exactly.
 *
 * @param nanoTime from an arbitrary origin
 * @param writer runs what writes, one after the other
 */
private[pillarbox] final class DriverBudgets(nanoTime: () => Long, writer: ExecutorService) {
  import DriverBudgets._

  private val allocators = mutable.HashMap.empty[String, Named]
  private val accounts = mutable.LinkedHashMap.empty[String, Open]

  /**
   * Opens an account. If it is open it learns what other drivers have by now. May block.
   *
   * @param operator the operator as messages name it
   * @return None, or another operator that has named the budget with other terms
   */
  def open(
      account: BudgetAccount,
      operator: String,
      terms: BudgetTerms,
      store: Option[BudgetStore]
  ): Option[String] = {
    val known = synchronized(accounts.get(account.key))
    known.flatMap(_.shared).foreach(_.look())
    val stored = if (known.isEmpty) store.map(_.read(terms)) else None
    synchronized {
      val named = allocators.getOrElseUpdate(account.budget, new Named(operator, new BudgetAllocator(terms)))
      val isOther = named.allocator.terms != terms
      if (!isOther && !accounts.contains(account.key))
        begin(account, named.allocator, store, stored.getOrElse(terms.nothing))
      Option.when(isOther)(named.operator)
    }
  }

  private def begin(
      account: BudgetAccount,
      allocator: BudgetAllocator,
      store: Option[BudgetStore],
      stored: BudgetSpent
  ): Unit = {
    // The last run may not have been written, as long as it is known.
    val last = store.flatMap(own => accounts.values.find(_.store.exists(_.path == own.path)))
    val before = last.map(close).getOrElse(stored)
    allocator.begin(account.id, before.copy(rows = 0, failed = 0))
    val shared = store.filter(_.isShared).map(new SharedAccount(account.id, allocator, _, this, nanoTime))
    accounts(account.key) = new Open(account, allocator, store, before.amounts, shared)
    forgetOldest()
  }

  /** A cached DataFrame is computed by the description of an action that has ended, so none ends with it. */
  private def forgetOldest(): Unit = if (accounts.size > MostAccounts)
    accounts.values
      .find(open => open.store.isEmpty && !open.account.isShared)
      .foreach(close(_): Unit)

  /** Answers a report, on any thread; with null if that is not to be answered. */
  def spend(key: String, process: String, report: BudgetReport)(reply: BudgetGrant => Unit): Unit = {
    val ready = synchronized {
      accounts.get(key).fold(unknown(key, report)) { open =>
        val asked = if (open.isEnding) report.copy(wanted = 0) else report
        val grant = open.allocator.report(open.account.id, process, asked, nanoTime())
        if (grant == null || open.isEnding) grant
        else if (open.shared.exists(_.looksAgain(grant))) {
          // The process asks again when it has no answer for a while.
          writer.execute(() => quietly(open)(open.shared.foreach(_.lookAgain())): Unit)
          Later
        } else if (open.isWritten) {
          if (open.shared.exists(_.givesBack)) writer.execute(() => giveBack(open))
          grant
        } else {
          open.waiting += new Waiting(
            open.allocator.hasGranted,
            failed => reply(if (failed) grant.copy(over = BudgetExceeded.NotKept) else grant)
          )
          writer.execute(() => write(open, ahead = true))
          Later
        }
      }
    }
    if (ready ne Later) reply(ready)
  }

  private def unknown(key: String, report: BudgetReport): BudgetGrant = {
    log.warn("A task of a run that is over asks for its budget: {}", key)
    BudgetGrant(BudgetExceeded.NotKept, report.ceiling, report.spent, 0L)
  }

  private def write(open: Open, ahead: Boolean): Unit = {
    val waiting = synchronized {
      val waiting = open.waiting.toSeq
      open.waiting.clear()
      waiting
    }
    val isNeeded = !ahead || (waiting.nonEmpty && !open.isEnding)
    if (isNeeded) {
      var fits = true
      val isDone = quietly(open)(open.shared match {
        case Some(shared) => fits = shared.write(room = ahead)
        case None => writeAlone(open, ahead)
      })
      // The others ask again, and hear what is left by then.
      waiting.filter(fits || !_.isMore).foreach(_.answer(!isDone))
    }
  }

  private def writeAlone(open: Open, ahead: Boolean): Unit = {
    val spent = synchronized(open.allocator.charged(open.account.id))
    val content = if (ahead) withRoom(open.allocator.terms, spent) else spent
    open.store.foreach(_.write(open.allocator.terms, content))
    synchronized { open.written = content.amounts }
  }

  private def giveBack(open: Open): Unit = {
    val (isLess, isIdle) =
      synchronized((open.shared.exists(_.givesBack), open.allocator.isIdle(open.account.id)))
    if (isLess) quietly(open)(open.shared.foreach(_.write(room = !isIdle))): Unit
  }

  /** Writes exactly what accounts have spent that other drivers share. Waits. */
  def settle(): Unit = {
    val shared = synchronized(accounts.values.filter(_.shared.isDefined).toSeq)
    shared.map(open => writer.submit((() => exactly(open)): Runnable)).foreach(_.get())
  }

  private def exactly(open: Open): Unit =
    quietly(open)(open.shared.foreach(_.write(room = false))): Unit

  /** False if it has failed. */
  private def quietly(open: Open)(body: => Unit): Boolean =
    try {
      body
      true
    } catch {
      case NonFatal(problem) =>
        val place = open.store.fold("")(_.path)
        log.warn(s"What a budget has spent could not be written to $place, or read there", problem)
        false
    }

  /** Ends the accounts of a run of a streaming query. Waits until what was spent is written. */
  def ended(run: String): Unit = {
    val ending = synchronized {
      val ending = accounts.values.filter(open => open.account.run == run && open.store.isDefined).toSeq
      ending.foreach(_.isEnding = true)
      ending
    }
    val written = ending.map(open => writer.submit((() => write(open, ahead = false)): Runnable))
    written.foreach(_.get())
    synchronized(ending.foreach(close(_): Unit))
  }

  /** Forgets all: another application begins. */
  def clear(): Unit = synchronized {
    accounts.values.filter(_.shared.isDefined).foreach(open => writer.execute(() => exactly(open)))
    accounts.values.foreach(_.isEnding = true)
    accounts.clear()
    allocators.clear()
  }

  /** Takes it out, under the lock, and returns what it has spent. */
  private def close(open: Open): BudgetSpent = {
    val spent = open.allocator.charged(open.account.id)
    open.isEnding = true
    accounts.remove(open.account.key)
    if (!open.account.isShared) allocators.remove(open.account.budget)
    // A shared budget counts on what was spent, without processes that may still give back.
    else open.allocator.begin(open.account.id, spent)
    spent
  }

  /** The number of accounts that are open. */
  private[async] def size: Int = synchronized(accounts.size)
}

private[pillarbox] object DriverBudgets {
  private val log = org.slf4j.LoggerFactory.getLogger(classOf[DriverBudgets])

  /** At most about so many writes for the whole of a budget, beside those near its end. */
  private[async] final val WritesABudget = 100

  private[async] def withRoom(terms: BudgetTerms, spent: BudgetSpent): BudgetSpent =
    spent.copy(amounts = spent.amounts.zipWithIndex.map { case (amount, at) =>
      val part = terms.mostOf(at) / WritesABudget
      val room = if (terms.isCalls(at)) math.floor(part) else part
      math.max(amount, math.min(amount + room, terms.mostOf(at)))
    })

  private final val MostAccounts = 10000

  private val Later = BudgetGrant(0, IndexedSeq.empty, BudgetSpent.none(0), 0L)

  /**
   * A process that waits for a write.
   *
   * @param isMore true if it is granted more
   * @param answer takes whether the write has failed
   */
  private final class Waiting(val isMore: Boolean, val answer: Boolean => Unit)

  private final class Named(val operator: String, val allocator: BudgetAllocator)

  private final class Open(
      val account: BudgetAccount,
      val allocator: BudgetAllocator,
      val store: Option[BudgetStore],
      var written: IndexedSeq[Double],
      val shared: Option[SharedAccount]
  ) {

    /** True if nothing more is granted. */
    @volatile var isEnding = false

    val waiting = mutable.Buffer.empty[Waiting]

    def isWritten: Boolean = store.isEmpty || shared.fold(isWrittenAlone)(_.isWritten)

    private def isWrittenAlone =
      allocator.charged(account.id).amounts.zip(written).forall { case (amount, known) => amount <= known }
  }
}
