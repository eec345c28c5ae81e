package io.pillarbox.spark.keyed.python

import java.nio.ByteBuffer

import io.pillarbox.api.TimeDomain
import io.pillarbox.operator.KeyedTarget
import io.pillarbox.spark.base.SpecJson
import io.pillarbox.spark.keyed.{KeyedOperator, KeyedOperatorContext, KeyedOperatorFactory}
import io.pillarbox.spark.state.{InitialState, InitialTarget}
import io.pillarbox.spark.task.ReportedException
import io.pillarbox.spark.worker._
import io.pillarbox.state.Namespace
import io.pillarbox.timer.Timer
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.pillarbox.{SparkAdapter, UserFunction}
import org.apache.spark.sql.types.StructType

/**
 * Runs a Python function of the row or column form: gathers events into frames and exchanges them with the
 * worker.
 *
 * A frame holds events of many keys, so the worker fires the timers that are set by a frame's events, up to
 * the horizon of its last one.
 */
private[pillarbox] final class PythonKeyedOperator(factory: PythonKeyedOperator.Factory)
    extends KeyedOperator
    with KeyedTarget[UnsafeRow, UnsafeRow] {
  private var context: KeyedOperatorContext = _
  private var worker: KeyedWorker = _
  private var states: Array[PythonState] = Array.empty
  private var events: FrameEvents = _
  private var results: ArrowBatchReader = _
  private var toResult: UnsafeProjection = _
  private var view: InternalRow => InternalRow = _
  private var frameId = 0L
  private var goesByEventTime = false
  private var domains: Set[TimeDomain] = Set.empty

  /** The timers of the column form: each is a state of the worker's and a timer of ours. */
  private var inColumns: Map[String, TimeDomain] = Map.empty

  /** The time before the frame's first event. */
  private var reached = Long.MinValue
  private var horizon = Long.MinValue

  /** The number of the frame's keys without further rows: all but the last one, or all. Only in a batch. */
  private var endedKeys = 0

  /** True if the frame's first key has state and timers from the frame before. Only in a batch. */
  private var goesOn = false

  /** The number of keys whose state was added to the frame. */
  private var loadedKeys = 0

  /** The ordinal of the key in a stream's row, if it is one column of eight bytes; else -1. */
  private var wordOrdinal = -1

  private def hasInitial = context.task.initial.isDefined

  override def open(context: KeyedOperatorContext): Unit = {
    this.context = context
    val rowSchema = functionSchema
    view = SparkAdapter.view(inputSchema, columnsOfFunction)
    wordOrdinal = if (context.isBatch) -1 else context.task.wordOrdinal
    worker = new KeyedWorker(factory.function, context.taskContext, factory.calls, context.count)
    results = new ArrowBatchReader(arrow(context.spec.functionOutput))
    toResult = context.projections.of(context.spec.functionOutput)
    val ready = showingErrors(worker.open(initJson, arrow(rowSchema), arrow(context.spec.functionOutput)))
    val Ready(declared, hasTimers) = SpecJson.read[Ready](ready)
    inColumns = declared
      .flatMap(state => state.timeDomain.flatMap(InitialState.domainOf).map(state.name -> _))
      .toMap
    domains = if (inColumns.nonEmpty || !hasTimers) inColumns.values.toSet else TimeDomain.values.toSet
    goesByEventTime = hasTimers || declared.exists(_.goesByEventTime)
    val limits = FrameLimits.of(factory.form, declared, context.task.maxRowsPerBatch)
    events = new FrameEvents(arrow(context.task.keySchema), arrow(rowSchema), limits, sendPart(0, _), shown)
    // One by one, so that those before one that does not open are closed.
    declared.foreach(state => states :+= stateOf(state))
    states.zipWithIndex.foreach { case (state, i) => state.onMany(sendPart(1 + i, _), shown) }
    val schemas = Seq(arrow(context.task.keySchema), arrow(rowSchema)) ++ states.map(_.cellSchema)
    showingErrors(worker.sendSchemas(schemas))
  }

  private def sendPart(what: Int, parts: Seq[ByteBuffer]): Unit = showingErrors(worker.sendPart(what, parts))

  override def initialTargets: Map[String, () => InitialTarget] =
    states.iterator.map(state => state.declared.name -> (() => state.initialTarget)).toMap

  override def usesEventTime: Boolean = goesByEventTime

  override def timerDomains: Set[TimeDomain] = domains

  override def timerStates: Map[String, TimeDomain] = inColumns

  override def target: KeyedTarget[UnsafeRow, UnsafeRow] = this

  override def firesWithin: Boolean = true

  override def takeRow(row: UnsafeRow, time: Long): Unit = {
    begin()
    if (isWord(row)) addWord(row, time) else addRow(indexOf(context.keyOf(row)), row, time)
    added()
  }

  override def takeRow(key: UnsafeRow, row: UnsafeRow, time: Long): Unit = {
    begin()
    horizon = context.clock.watermark
    if (isWord(row)) addWord(row, time) else addRow(indexOf(key), row, time)
    added()
  }

  override def takeTimer(timer: Timer[UnsafeRow], horizon: Long): Unit = {
    begin()
    events.addTimer(indexOf(timer.key), timer.kind, timer.timestamp)
    this.horizon = horizon
    added()
  }

  override def startKey(key: UnsafeRow): Unit = ()

  override def endKey(key: UnsafeRow): Unit = {
    begin()
    indexOf(key)
    endedKeys = events.keys
    if (events.isFull) send()
  }

  override def settle(horizon: Long): Unit = {
    this.horizon = horizon
    if (!events.isEmpty) send()
  }

  private def begin(): Unit =
    if (events.isStarting && endedKeys == 0) reached = context.clock.reached

  private def isWord(row: UnsafeRow): Boolean = wordOrdinal >= 0 && !row.isNullAt(wordOrdinal)

  private def addWord(row: UnsafeRow, time: Long): Unit = {
    worker.add(row)
    events.addUnsettled(row.getLong(wordOrdinal), time, view(row), row.getSizeInBytes)
  }

  private def addRow(keyIndex: Int, row: UnsafeRow, time: Long): Unit = {
    worker.add(row)
    events.addRow(keyIndex, time, view(row), row.getSizeInBytes)
  }

  /** Returns the number of a key; the state of a new one goes into the frame. */
  private def indexOf(key: UnsafeRow): Int = {
    val keyIndex = events.indexOf(key)
    loadNewKeys()
    keyIndex
  }

  /** Adds the state of the frame's new keys to it, unless they are keys of a batch that can't have any. */
  private def loadNewKeys(): Unit =
    while (loadedKeys < events.keys) {
      val keyIndex = loadedKeys
      loadedKeys += 1
      if (isStored(keyIndex)) addStored(keyIndex)
      else states.foreach(_.addNothing(keyIndex - events.firstKey))
    }

  /** True if anything of a key may be stored. */
  private def isStored(keyIndex: Int): Boolean = !context.isBatch || hasInitial || (goesOn && keyIndex == 0)

  private def addStored(keyIndex: Int): Unit = {
    select(keyIndex)
    var bytes = events.key(keyIndex).getSizeInBytes.toLong
    var i = 0
    while (i < states.length) {
      bytes += states(i).addCells(keyIndex, keyIndex - events.firstKey)
      i += 1
    }
    // In a stream every due timer comes as an event, and only a function that lists timers gets the rest.
    if (context.isBatch)
      timersOf(keyIndex).foreach(timer => events.listTimer(keyIndex, timer.kind, timer.timestamp))
    // The state that is sent again for a key that goes on must not fill the next frame by itself.
    if (!(goesOn && keyIndex == 0)) events.addBytes(bytes)
  }

  private def added(): Unit = {
    loadNewKeys()
    if (events.isFull) sendFull()
  }

  /** In a stream the worker may hold the keys of a full frame, so that their state goes to and fro once. */
  private def sendFull(): Unit =
    if (context.isBatch || events.isHeldFull) send()
    else {
      exchange(PythonKeyedOperator.KeepKeys)
      events.nextFrame()
    }

  private def send(): Unit = {
    exchange(0)
    if (context.isBatch) dropEnded() else states.foreach(_.cleanUp())
    goesOn = context.isBatch && endedKeys < events.keys
    endedKeys = 0
    events.clear()
    loadedKeys = 0
  }

  /** Clears the state of keys that have ended. */
  private def dropEnded(): Unit = (0 until endedKeys).filter(isStored).foreach { keyIndex =>
    select(keyIndex)
    states.foreach(_.clear())
  }

  override def abort(): Unit = if (worker != null) worker.abort()

  override def close(): Unit = {
    try if (worker != null) showingErrors(worker.close())
    finally (states ++ Seq(events, results).filter(_ != null)).foreach(_.close())
  }

  private def exchange(flags: Int): Unit = {
    events.settle()
    loadNewKeys()
    frameId += 1
    val head = events.encode(frameId, reached, horizon, context.clock.processingTime, flags | mode, endedKeys)
    val frame =
      showingErrors(worker.exchange(head ++ cells() ++ events.listed, events.keyIndexOf(_), answer, part))
    applyUpdate(frame.body)
  }

  private def mode: Int =
    (if (context.isBatch) PythonKeyedOperator.Batch else PythonKeyedOperator.TimersOnDemand) |
      (if (context.spec.timeSorted) PythonKeyedOperator.TimeSorted else 0)

  /** Returns the state of the frame's new keys. */
  private def cells(): Seq[ByteBuffer] =
    Frame.buffer(4).putInt(states.size).flip() +: states.toSeq.flatMap(state =>
      FrameEvents.blob(state.finishCells())
    )

  private def timersOf(keyIndex: Int): Seq[Timer[UnsafeRow]] = {
    select(keyIndex)
    PythonKeyedOperator.Kinds.flatMap(context.timers.timersOfCurrentKey).filter(_.namespace.isVoid)
  }

  private def timersAnswer(keyIndex: Int): Answer = {
    val timers = timersOf(keyIndex)
    val bytes = Frame.buffer(9 * timers.size)
    timers.foreach(timer => bytes.put(FrameEvents.codeOf(timer.kind)).putLong(timer.timestamp))
    Answer(Seq(bytes.flip()))
  }

  private def answer(state: Int, keyIndex: Int, op: Int, asked: ByteBuffer): Answer = {
    if (state == PythonKeyedOperator.TimersState) timersAnswer(keyIndex)
    else {
      select(keyIndex)
      val found = states(state).answer(op, asked)
      events.addBytes(found.entries.map(_.remaining.toLong).sum)
      found
    }
  }

  /** Takes rows or changes that precede those of the update. */
  private def part(body: ByteBuffer): Unit = {
    val what = body.getInt
    if (what == 0) collect(body) else states(what - 1).applyChanges(body, select)
  }

  private def applyUpdate(body: ByteBuffer): Unit = {
    body.getLong // the frame's id: answers come in order
    collect(blobOf(body))
    val count = body.getInt
    (0 until count).foreach(state => states(state).applyChanges(blobOf(body), select))
    applyTimers(body)
    PythonKeyedOperator.Kinds.foreach(kind => context.countTimers(kind, body.getInt.toLong))
  }

  /** The rows are read as they are pulled: before the next frame, or else `settleRows` makes them by then. */
  private def collect(blob: ByteBuffer): Unit = {
    context.settleRows()
    if (blob.hasRemaining) {
      val rows = results.read(blob).rowIterator
      context.collectAll(new Iterator[UnsafeRow] {
        override def hasNext: Boolean = rows.hasNext
        override def next(): UnsafeRow = toResult(rows.next())
      })
    }
  }

  private def applyTimers(body: ByteBuffer): Unit = {
    val n = body.getInt
    val keyIndexes = Array.fill(n)(body.getInt)
    val kinds = Array.fill(n)(body.get())
    val ops = Array.fill(n)(body.get())
    val times = Array.fill(n)(body.getLong)
    for (i <- 0 until n) {
      select(keyIndexes(i))
      val kind = FrameEvents.kindOf(kinds(i))
      if (ops(i) == 0) context.timers.register(kind, Namespace.Void, times(i))
      else context.timers.delete(kind, Namespace.Void, times(i))
    }
  }

  private def select(keyIndex: Int): Unit =
    context.backend.setCurrentKey(events.key(keyIndex), events.keyHash(keyIndex))

  private def blobOf(body: ByteBuffer): ByteBuffer = {
    val length = body.getInt
    val blob = body.slice(body.position(), length)
    body.position(body.position() + length)
    blob
  }

  private def stateOf(declared: DeclaredState): PythonState = {
    val (backend, descriptor) = (context.backend, declared.descriptor)
    val project = context.projections.of(_: StructType)
    declared.kind match {
      case "list" =>
        new PythonListState(declared, backend.timestampedList(descriptor), backend, arrow, project)
      case "map" => new PythonMapState(declared, backend.timestampedMap(descriptor), backend, arrow, project)
      case _ => new PythonValueState(declared, backend.timestampedValue(descriptor), backend, arrow, project)
    }
  }

  private def arrow(schema: StructType): Schema =
    SparkAdapter.arrowSchema(schema, context.task.timeZone, largeVarTypes = false)

  /** The columns that the function gets, and the one that tells which rows are late. */
  private def functionSchema: StructType =
    StructType(columnsOfFunction.map(inputSchema(_)))

  private def columnsOfFunction: Seq[Int] =
    context.task.functionColumns ++ inputSchema.indices.drop(context.task.columns.size)

  private def inputSchema: StructType = DataTypeUtils.fromAttributes(context.task.input)

  private def initJson: String =
    SessionStart.initJson(context.task.text, context.taskContext) {
      _.put("kind", "keyed")
        .put("name", context.spec.name)
        .put("blocked_loop_ms", context.spec.blockedLoopMs)
        .put("event_time", context.task.hasEventTime)
        .put("time_sorted", context.spec.timeSorted): Unit
    }

  /** Translates errors of the user's function, so that they reach the driver with their own message. */
  private def showingErrors[T](body: => T): T =
    try body
    catch { case failure: PythonTaskFailure => throw shown(failure) }

  private def shown(failure: PythonTaskFailure): Throwable =
    new ReportedException(failure.report(context.spec.operator))
}

private[pillarbox] object PythonKeyedOperator {
  private final val Batch = 1
  private final val TimeSorted = 2
  private final val TimersOnDemand = 4

  /** The worker holds the keys and their state for the next frame. */
  private final val KeepKeys = 8

  /** The pseudo-state of a query for timers. */
  private final val TimersState = -1
  private val Kinds = Seq(TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME)

  /**
   * Makes operators for a pickled function.
   *
   * @param calls for a function that makes calls
   */
  final case class Factory(form: String, function: UserFunction, calls: Option[WorkerCalls.Factory] = None)
      extends KeyedOperatorFactory {
    override def runsPython: Boolean = true
    override def ofCurrentJob: KeyedOperatorFactory = copy(function = function.ofCurrentJob)
    override def withCalls(calls: WorkerCalls.Factory): KeyedOperatorFactory = copy(calls = Some(calls))
    override def create(): KeyedOperator = new PythonKeyedOperator(this)
  }
}
