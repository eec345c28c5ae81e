package io.pillarbox.spark.keyed.python

import java.nio.ByteBuffer

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.spark.keyed._
import io.pillarbox.spark.python.{ArrowBatchReader, Frame, PythonFailure}
import io.pillarbox.state.Namespace
import io.pillarbox.timer.{Timer, TimerKind}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.{InternalRow, ProjectingInternalRow}
import org.apache.spark.sql.pillarbox.{SparkAdapter, UserErrors, UserFunction}
import org.apache.spark.sql.types.StructType

/** Runs a Python function of the row or column form: gathers events into frames and exchanges them with the worker. */
final class PythonKeyedOperator(factory: PythonKeyedOperator.Factory) extends KeyedOperator {
  private var context: KeyedOperatorContext = _
  private var worker: KeyedWorker = _
  private var clock: RawClock = _
  private var states: Array[PythonState] = Array.empty
  private var events: FrameEvents = _
  private var results: ArrowBatchReader = _
  private var toResult: UnsafeProjection = _
  private var view: InternalRow => InternalRow = _
  private var frameId = 0L
  private var frameWatermark = Long.MinValue

  /** Of a batch: keys whose rows have all come, but which are not finished yet. */
  private var endedKeys = 0

  /** Of a batch: whether some keys of the frame have state from an earlier frame. */
  private var hasStored = false

  /** How many of the keys have had their state added to the frame. */
  private var loadedKeys = 0

  /** Where in a row of a stream its key is, if that is one column of eight bytes; else -1. */
  private var wordOrdinal = -1

  private def hasInitial = context.task.initial.isDefined

  override def open(context: KeyedOperatorContext): Unit = {
    this.context = context
    val rowSchema = functionSchema
    view = viewOf(rowSchema)
    wordOrdinal = if (context.isBatch) -1 else context.task.wordOrdinal
    clock = new RawClock(context.clock)
    worker = new KeyedWorker(factory.function, factory.artifactId, context.taskContext, context.count)
    results = new ArrowBatchReader(arrow(context.resultSchema))
    toResult = UnsafeProjection.create(context.resultSchema)
    val ready = showingErrors(worker.open(initJson, arrow(rowSchema), arrow(context.resultSchema)))
    val declared = DeclaredState.fromReady(ready)
    val limits = FrameLimits.of(factory.form, declared, context.task.maxRowsPerBatch)
    events = new FrameEvents(arrow(context.keySchema), arrow(rowSchema), limits)
    states = declared.map(stateOf).toArray
    worker.sendSchemas(Seq(arrow(context.keySchema), arrow(rowSchema)) ++ states.map(_.cellSchema))
  }

  override def initialTargets: Map[String, () => InitialTarget] =
    states.iterator.map(state => state.declared.name -> (() => state.initialTarget)).toMap

  override def tryProcessElement(row: UnsafeRow, timestamp: Long): Boolean = {
    if (wordOrdinal >= 0 && !row.isNullAt(wordOrdinal))
      events.addUnsettled(row.getLong(wordOrdinal), timestamp, view(row), row.getSizeInBytes)
    else events.addRow(slotOf(context.keyOf(row)), timestamp, view(row), row.getSizeInBytes)
    added()
  }

  override def tryOnTimer(timer: Timer[UnsafeRow]): Boolean = {
    events.addTimer(slotOf(timer.key), timer.kind, timer.timestamp)
    added()
  }

  /** The number of a key; the state of a new one goes into the frame. */
  private def slotOf(key: UnsafeRow): Int = {
    val slot = events.slotOf(key)
    loadNewKeys()
    slot
  }

  private def settle(): Unit = {
    events.settle()
    loadNewKeys()
  }

  /** The state of the frame's new keys goes into the frame, unless they are keys of a batch that can't have any. */
  private def loadNewKeys(): Unit = if (loadedKeys < events.keys) {
    val isStored = !context.isBatch || hasStored || hasInitial
    clock.save()
    clock.reading()
    try
      while (loadedKeys < events.keys) {
        val slot = loadedKeys
        loadedKeys += 1
        if (isStored) addCells(slot) else states.foreach(_.addNothing(slot - events.firstKey))
      }
    finally clock.restore()
  }

  private def addCells(slot: Int): Unit = {
    select(slot)
    var bytes = events.key(slot).getSizeInBytes.toLong
    var i = 0
    while (i < states.length) {
      bytes += states(i).addCells(slot, slot - events.firstKey)
      i += 1
    }
    // What a batch has to send again for a key that goes on must not fill the next frame by itself.
    if (!context.isBatch) events.addBytes(bytes)
  }

  private def added(): Boolean = {
    frameWatermark = context.watermark
    loadNewKeys()
    if (events.isFull) sendUnfinished()
    true
  }

  override def tryEndKey(): Boolean = {
    endedKeys = events.keys
    if (events.isFull || hasStored) finishKeys()
    true
  }

  override def flush(): Unit =
    if (context.isBatch) { if (endedKeys > 0) finishKeys() }
    else if (!events.isEmpty) {
      exchange(0, apply = true)
      forgetKeys()
    }

  override def isIdle: Boolean = true

  override def abort(): Unit = if (worker != null) worker.abort()

  override def close(): Unit = {
    if (worker != null) worker.close()
    (states ++ Seq(events, results).filter(_ != null)).foreach(_.close())
  }

  /**
   * Sends a full frame. In a batch its last key may go on, and so its keys can't be finished: they stay, without events,
   * for the frame that finishes them. In a stream the worker may hold them, so that their state goes to and fro once.
   */
  private def sendUnfinished(): Unit =
    if (context.isBatch) {
      exchange(0, apply = true)
      val unfinished = (0 until events.keys).map(events.key)
      forgetKeys()
      hasStored = true
      unfinished.foreach(slotOf)
    } else if (events.isHeldFull) {
      exchange(0, apply = true)
      forgetKeys()
    } else {
      exchange(PythonKeyedOperator.KeepKeys, apply = true)
      events.nextFrame()
    }

  private def forgetKeys(): Unit = {
    events.clear()
    loadedKeys = 0
  }

  /** Sends what has gathered of a batch, after which all timers of its keys fire and their state is dropped. */
  private def finishKeys(): Unit = {
    exchange(PythonKeyedOperator.EndOfKeys, apply = false)
    if (hasStored || hasInitial) (0 until events.keys).foreach(dropKey)
    forgetKeys()
    endedKeys = 0
    hasStored = false
  }

  private def dropKey(slot: Int): Unit = {
    select(slot)
    states.foreach(_.clear())
    context.timers.deleteTimersOfCurrentKey()
  }

  private def exchange(flags: Int, apply: Boolean): Unit = {
    settle()
    clock.save()
    clock.reading()
    try {
      val mode = (if (context.isBatch) PythonKeyedOperator.Batch else 0) |
        (if (context.spec.timeSorted) PythonKeyedOperator.TimeSorted else 0) |
        (if (context.isBatch) 0 else PythonKeyedOperator.TimersOnDemand)
      frameId += 1
      val head = events.encode(frameId, frameWatermark, context.processingTime, flags | mode)
      val frame = showingErrors(worker.exchange(head ++ cells() ++ timers(), answer))
      clock.restore()
      applyUpdate(frame.body, apply)
    } finally clock.restore()
  }

  /** The state of the frame's new keys. */
  private def cells(): Seq[ByteBuffer] =
    Frame.buffer(4).putInt(states.size).flip() +: states.toSeq.flatMap(state =>
      FrameEvents.blob(state.finishCells())
    )

  /** In a stream all that is due comes as an event, and the rest is only sent to a function that lists it. */
  private def timers(): Seq[ByteBuffer] = {
    val all =
      if (!context.isBatch || !hasStored) Nil
      else (0 until events.keys).flatMap(slot => timersOf(slot).map(slot -> _))
    val bytes = Frame.buffer(4 + 13 * all.size).putInt(all.size)
    all.foreach { case (slot, _) => bytes.putInt(slot) }
    all.foreach { case (_, timer) => bytes.put(FrameEvents.codeOf(timer.kind)) }
    all.foreach { case (_, timer) => bytes.putLong(timer.timestamp) }
    Seq(bytes.flip())
  }

  private def timersOf(slot: Int): Seq[Timer[UnsafeRow]] = {
    select(slot)
    PythonKeyedOperator.Kinds.flatMap(context.timers.timersOfCurrentKey).filter(_.namespace.isVoid)
  }

  private def timersAnswer(slot: Int): ByteBuffer = {
    val timers = timersOf(slot)
    val bytes = Frame.buffer(9 * timers.size)
    timers.foreach(timer => bytes.put(FrameEvents.codeOf(timer.kind)).putLong(timer.timestamp))
    bytes.flip()
  }

  private def answer(state: Int, slot: Int, op: Int, key: ByteBuffer): ByteBuffer = {
    if (state == PythonKeyedOperator.TimersState) timersAnswer(slot)
    else {
      select(slot)
      val entries = states(state).answer(op, key)
      events.addBytes(entries.remaining.toLong)
      entries
    }
  }

  private def applyUpdate(body: ByteBuffer, isKept: Boolean): Unit = {
    body.getLong // the frame's id: answers come in order
    collect(blobOf(body))
    val count = body.getInt
    (0 until count).foreach { state =>
      val changes = blobOf(body)
      if (isKept) states(state).applyChanges(changes, select)
    }
    clock.restore()
    if (isKept) applyTimers(body)
  }

  /** The rows are read as they are pulled, which is over before the next frame, or else is done with by then. */
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
    val slots = Array.fill(n)(body.getInt)
    val kinds = Array.fill(n)(body.get())
    val ops = Array.fill(n)(body.get())
    val times = Array.fill(n)(body.getLong)
    for (i <- 0 until n) {
      select(slots(i))
      changeTimer(FrameEvents.kindOf(kinds(i)), isNew = ops(i) == 0, times(i))
    }
  }

  private def changeTimer(kind: TimerKind, isNew: Boolean, time: Long): Unit = (kind, isNew) match {
    case (TimerKind.EventTime, true) => context.timers.registerEventTimeTimer(Namespace.Void, time)
    case (TimerKind.EventTime, false) => context.timers.deleteEventTimeTimer(Namespace.Void, time)
    case (TimerKind.ProcessingTime, true) => context.timers.registerProcessingTimeTimer(Namespace.Void, time)
    case (TimerKind.ProcessingTime, false) => context.timers.deleteProcessingTimeTimer(Namespace.Void, time)
  }

  private def select(slot: Int): Unit = context.backend.setCurrentKey(events.key(slot), events.keyHash(slot))

  private def blobOf(body: ByteBuffer): ByteBuffer = {
    val length = body.getInt
    val blob = body.slice(body.position(), length)
    body.position(body.position() + length)
    blob
  }

  private def stateOf(declared: DeclaredState): PythonState = declared.kind match {
    case "list" => new PythonListState(declared, context.backend, arrow, clock)
    case "map" => new PythonMapState(declared, context.backend, arrow, clock)
    case _ => new PythonValueState(declared, context.backend, arrow, clock)
  }

  private def arrow(schema: StructType): Schema =
    SparkAdapter.arrowSchema(schema, context.task.timeZone, largeVarTypes = false)

  /** The columns that the function is given. */
  private def functionSchema: StructType =
    if (context.spec.inputs.isEmpty) context.inputSchema
    else StructType(context.spec.inputs.map(context.inputSchema(_)))

  private def viewOf(schema: StructType): InternalRow => InternalRow =
    if (schema == context.inputSchema) identity
    else {
      val ordinals = schema.fieldNames.map(context.inputSchema.fieldIndex)
      val view = ProjectingInternalRow(schema, ordinals.toIndexedSeq)
      row => {
        view.project(row)
        view
      }
    }

  private def initJson: String = {
    val mapper = new ObjectMapper
    val init = mapper.readTree(context.spec.json).asInstanceOf[ObjectNode]
    init
      .put("kind", "keyed")
      .put("event_time", context.hasEventTime)
      .put("time_sorted", context.spec.timeSorted)
    val task = context.taskContext
    init
      .putObject("task")
      .put("partition", task.partitionId())
      .put("stage", task.stageId())
      .put("attempt", task.attemptNumber())
      .put("task_attempt_id", task.taskAttemptId())
    mapper.writeValueAsString(init)
  }

  /** Errors of the user's function reach the driver by their own message. */
  private def showingErrors[T](body: => T): T =
    try body
    catch {
      case failure: PythonFailure =>
        throw UserErrors.failure(
          failure.condition,
          s"process_keyed(${context.spec.name}): ${failure.getMessage}",
          null
        )
    }
}

object PythonKeyedOperator {
  private final val Batch = 1
  private final val TimeSorted = 2
  private final val EndOfKeys = 4
  private final val TimersOnDemand = 8

  /** The worker holds the keys and their state for the next frame. */
  private final val KeepKeys = 16

  /** Of a query: it asks for timers. */
  private final val TimersState = -1
  private val Kinds = Seq(TimerKind.EventTime, TimerKind.ProcessingTime)

  /** Makes operators for a pickled function. */
  final case class Factory(form: String, function: UserFunction, artifactId: Option[String])
      extends KeyedOperatorFactory {
    override def runsPython: Boolean = true
    override def create(): KeyedOperator = new PythonKeyedOperator(this)
  }
}
