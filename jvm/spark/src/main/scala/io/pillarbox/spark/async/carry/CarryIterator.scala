package io.pillarbox.spark.async.carry

import java.io.{DataOutputStream, OutputStream}

import io.pillarbox.queue.CloseableIterator
import io.pillarbox.spark.checkpoint._
import io.pillarbox.spark.state.StateMaintenance
import io.pillarbox.spark.task.RunToEnd
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.pillarbox.{DriverMessages, TaskKills}

/**
 * One micro-batch of one slot: emits the results that the committed version holds, then feeds the slot with
 * the input, and commits what it carries as the next version.
 *
 * Whoever takes some of the rows only gets a micro-batch that is processed all the same, at the end of the
 * task. Where the next version is there already, of this run of the query, it stays: a micro-batch that is
 * computed twice gives the same rows, and makes no call twice on the executor that has the slot.
 *
 * @param from
 *   what the micro-batch starts from
 * @param isFirst
 *   true if no other stage of this run of the query has the micro-batch, so that only an earlier attempt of the
 *   task may have written the version
 */
private[carry] final class CarryIterator(
    task: CarryTaskSpec,
    slotNumber: Int,
    from: PartitionBase,
    isFirst: Boolean,
    input: Iterator[InternalRow],
    context: TaskContext
) extends Iterator[InternalRow] {
  import CarryIterator._

  private val calls =
    task.calls.copy(site = task.calls.site.ofPart(slotNumber), metrics = task.metrics)
  private val settings = task.commits.settings
  private val base = from.version
  private val partition = task.commits.partitionOf(slotNumber)
  private val store = new SlotStore(
    new StateFolder(partition.folder, settings.configuration),
    new SlotStateFormat(
      calls.columns.child.length,
      calls.columns.results.length,
      UnsafeProjection.create(calls.columns.results),
      task.columns.toDone(calls.columns.by)
    ),
    task.since
  )
  private val runId = partition.runId.toString
  private val toOutput = task.columns.toOutput
  private val outputRows = task.metrics("numOutputRows")
  private var started = false
  private var ended = false

  /** Set once, under `handover`: the slot is not this task's to close any more, or is closed. */
  private var committed = false
  private var results: CloseableIterator[UnsafeRow] = CloseableIterator.of(Iterator.empty)

  /** The next version as the micro-batch that was computed before has left it, if it was. */
  private var known: Option[Known] = None
  @volatile private var slot: CarrySlot = _
  @volatile private var aborted = false
  private val handover = new Object

  // Also for who takes no row at all.
  RunToEnd.of(context)(runToEnd()) {
    abort()
    results.close()
  }

  override def hasNext: Boolean = synchronized {
    if (!started) begin()
    results.hasNext || {
      if (!ended) end()
      false
    }
  }

  override def next(): InternalRow = synchronized {
    if (!hasNext) throw new NoSuchElementException("The partition has no more rows")
    outputRows += 1
    toOutput(results.next())
  }

  private def begin(): Unit = {
    started = true
    TaskKills.listen(context)(_ => abort())
    partition.reportActive(OpenSlots.partitions).foreach(OpenSlots.unload)
    DriverMessages.announce(OpenSlots.closeRun)
    StateMaintenance.watch(OpenSlots, settings.maintenanceMs)
    takeSlot()
    if (known.isEmpty && (isAgain || !isFirst))
      known = store.knownOf(base.number + 1, settings.run, runId).map { case (id, report) =>
        Known(Some(id), report, isOpen = false)
      }
    results = Option(slot)
      .flatMap(_.fewResults)
      .fold(store.results(base))(rows => CloseableIterator.of(rows.iterator))
  }

  private def next(id: Option[String]) = StateVersion(base.number + 1, id)

  /**
   * The slot that goes on from the base; one that has the next version already stays where it is. One that had
   * nothing in flight, whose worker has died, is made anew.
   */
  private def takeSlot(): Unit = OpenSlots.checkOut(partition).foreach { open =>
    if (open.slot.failed != null) {
      if (!open.hasNothing && base.isMetBy(open.version)) throw open.slot.failed
    } else if (base.isMetBy(open.version)) slot = open.slot
    else if (open.version.number == base.number + 1 && base.isMetBy(open.base)) {
      OpenSlots.checkIn(partition, open)
      known = Some(Known(open.version.id, open.report, isOpen = true))
    } else open.slot.close()
  }

  private def end(): Unit = {
    ended = true
    results.close()
    known match {
      case Some(there) => take(there)
      case None => run()
    }
  }

  /**
   * Operators before this one do their part all the same: where another attempt did it and failed, Spark has
   * forgotten what it told. Calls of a slot that is not open here are left to the next micro-batch.
   */
  private def take(there: Known): Unit = {
    if (isAgain) while (input.hasNext) input.next()
    closeSlot()
    tellDriver(next(there.id), there.report)
    commits(): Unit
    if (!there.isOpen && there.report.inFlight > 0) driver.wake(base.number + 1)
  }

  private def isAgain = context.attemptNumber() > 0 || context.stageAttemptNumber() > 0

  private def run(): Unit = {
    val start = System.nanoTime
    val version = next(Some(settings.newId(context)))
    var state: SlotState = null
    translating(store.write(version, base) { out =>
      state = feed(version.number, out)
      state
    })
    task.metrics("allUpdatesTimeMs") += (System.nanoTime - start) / NanosPerMs
    TaskKills.check(context)
    keep(version, state)
    store.deleteOld(version, settings)
  }

  private def keep(version: StateVersion, state: SlotState): Unit = {
    tellDriver(version, state.report)
    if (slot != null) {
      slot.publish(task.metrics)
      task.metrics(CarryMetrics.ConcurrencyNow) += slot.limitShare
    }
    if (commits() && slot != null)
      OpenSlots.checkIn(partition, new OpenSlot(slot, version, base, state.report))
  }

  /** False if the task was killed before, which has closed the slot. */
  private def commits(): Boolean = handover.synchronized {
    committed = !aborted
    committed
  }

  private def feed(version: Long, out: OutputStream): SlotState = {
    val file = new DataOutputStream(out)
    val carried = if (slot == null) store.state(base) else SlotState.Empty
    if (slot != null || !carried.elements.isEmpty) ensureSlot(carried, file)
    val toKept = task.columns.toKept
    val hold = holdOf()
    var rows = 0L
    while (input.hasNext) {
      val row = toKept(input.next()).copy()
      ensureSlot(carried, file)
      slot.put(new CarriedRow(row, hold(row)))
      rows += 1
    }
    val state =
      if (slot == null) carried.copy(results = 0, resultsHoldMicros = Long.MaxValue)
      else slot.endBatch(version, rows > 0, task.drain.of(slotNumber, rows > 0))
    SlotStateFormat.writeEnd(file)
    file.flush()
    state.copy(runId = runId)
  }

  private var isFed = false

  private def ensureSlot(carried: SlotState, file: DataOutputStream): Unit = if (!isFed) {
    isFed = true
    if (slot == null) {
      slot = new CarrySlot(calls, task.columns, context, carried, task.maxLagMs, driver)
      slot.open()
    }
    if (aborted) slot.close()
    slot.beginBatch(file)
  }

  /** Has nothing of this task: the slot outlives it. */
  private def driver: CarrySlot.Driver = {
    val key = CarryRegistry.keyOf(runId, partition.operator)
    val number = slotNumber
    new CarrySlot.Driver {
      override def wake(version: Long): Unit = DriverMessages.wake(key, version)
      override def fail(): Unit = DriverMessages.fail(key, number)
    }
  }

  /** The earliest of the times that are not late already: an operator after this one may see each of them. */
  private def holdOf(): UnsafeRow => Long = {
    val late = math.max(0L, task.lateWatermark) * MicrosPerMs
    row =>
      task.eventTimes.foldLeft(Long.MaxValue) { (least, expression) =>
        expression.eval(row) match {
          case time: Long if time > late => math.min(least, time)
          case _ => least
        }
      }
  }

  private def tellDriver(version: StateVersion, report: SlotReport): Unit = {
    task.commits.committed(slotNumber, from, version, report)
    task.metrics("numTotalStateRows") += report.inFlight + report.results
    task.metrics("numStateStoreInstances") += 1
    task.metrics(CarryMetrics.InFlight) += report.calls.toLong
    task.metrics(CarryMetrics.Carried) += report.inFlight.toLong
    task.metrics(CarryMetrics.Waiting) += report.results
  }

  private def closeSlot(): Unit = if (slot != null) {
    slot.close()
    slot = null
  }

  /** The end of a killed task is shown as a kill. */
  private def translating[A](body: => A): A =
    try body
    catch {
      case error: Throwable =>
        TaskKills.check(context)
        throw error
    }

  private def runToEnd(): Unit = {
    while (hasNext) next()
    if (!handover.synchronized(committed))
      throw new IllegalStateException(s"Micro-batch ${base.number} of ${partition.folder} was not committed")
  }

  /** A micro-batch that does not reach its commit leaves no slot behind. Any thread. */
  private def abort(): Unit = {
    val open = handover.synchronized {
      aborted = true
      if (committed) null else slot
    }
    if (open != null) open.close()
  }
}

private object CarryIterator {
  private final val NanosPerMs = 1000000L
  private final val MicrosPerMs = 1000L

  /**
   * The next version as it is there already.
   *
   * @param isOpen true if its slot is open in this executor
   */
  private final case class Known(id: Option[String], report: SlotReport, isOpen: Boolean)
}
