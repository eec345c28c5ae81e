package io.pillarbox.operator

import org.scalacheck.Gen

/** What a scripted function does with the state and timers of a row's key. */
sealed trait Action

object Action {
  case class Put(value: String) extends Action
  case object Read extends Action
  case object Clear extends Action
  case class MapPut(key: String, value: String) extends Action
  case class MapRemove(key: String) extends Action
  case class MapGet(key: String) extends Action
  case object MapEntries extends Action
  case class ListAdd(value: String) extends Action
  case object ListRead extends Action
  case class Side(value: String) extends Action
  case class EventTimer(time: Long) extends Action
  case class ProcessingTimer(time: Long) extends Action
  case class DeleteEventTimer(time: Long) extends Action
  case class DeleteProcessingTimer(time: Long) extends Action
}

final case class Row(key: Long, actions: Seq[Action])

/** What happens to the operator. */
sealed trait Step

object Step {
  case class Element(row: Row, timestamp: Long) extends Step

  /** Moves the watermark on by this much. */
  case class Watermark(by: Long) extends Step

  /** Moves the clock on by this much. */
  case class Clock(by: Long) extends Step
  case object Restart extends Step
}

/** State and timers of the current key, by whatever library. */
trait Cell {
  def value: Option[String]
  def value_=(value: String): Unit
  def clear(): Unit
  def mapPut(key: String, value: String): Unit
  def mapRemove(key: String): Unit
  def mapGet(key: String): Option[String]
  def mapEntries: Seq[(String, String)]
  def listAdd(value: String): Unit
  def list: Seq[String]

  /** Emits to the side output. */
  def side(value: String): Unit
  def registerEvent(time: Long): Unit
  def registerProcessing(time: Long): Unit
  def deleteEvent(time: Long): Unit
  def deleteProcessing(time: Long): Unit
}

/** The function under test, written once for both libraries: it emits what it sees. */
object ScriptedFunction {
  import Action._

  def onRow(row: Row, cell: Cell, emit: String => Unit): Unit = row.actions.foreach {
    case Put(value) => cell.value = value
    case Read => emit(s"${row.key} value ${cell.value}")
    case Clear => cell.clear()
    case MapPut(key, value) => cell.mapPut(key, value)
    case MapRemove(key) => cell.mapRemove(key)
    case MapGet(key) => emit(s"${row.key} map $key ${cell.mapGet(key)}")
    case MapEntries => emit(s"${row.key} map ${cell.mapEntries.sorted.mkString(",")}")
    case ListAdd(value) => cell.listAdd(value)
    case ListRead => emit(s"${row.key} list ${cell.list.mkString(",")}")
    case Side(value) => cell.side(s"${row.key} side $value")
    case EventTimer(time) => cell.registerEvent(time)
    case ProcessingTimer(time) => cell.registerProcessing(time)
    case DeleteEventTimer(time) => cell.deleteEvent(time)
    case DeleteProcessingTimer(time) => cell.deleteProcessing(time)
  }

  /** Reads state, changes it, and registers follow-up timers, due ones too. */
  def onTimer(key: Long, domain: String, time: Long, cell: Cell, emit: String => Unit): Unit = {
    emit(s"$key $domain timer $time sees ${cell.value}")
    cell.value = s"fired $time"
    cell.listAdd(s"$time")
    cell.side(s"$key side timer $time")
    if (time % 5 == 0)
      if (domain == "event") cell.registerEvent(time + 7) else cell.registerProcessing(time + 7)
    if (time % 4 == 3) if (domain == "event") cell.registerEvent(time + 1) else cell.deleteEvent(time + 3)
  }
}

object Script {
  private val time = Gen.choose(0L, 60L)
  private val name = Gen.oneOf("a", "b", "c")

  private val action: Gen[Action] = Gen.frequency(
    4 -> name.map(Action.Put),
    3 -> Gen.const(Action.Read),
    1 -> Gen.const(Action.Clear),
    3 -> Gen.zip(name, name).map(Action.MapPut.tupled),
    1 -> name.map(Action.MapRemove),
    2 -> name.map(Action.MapGet),
    1 -> Gen.const(Action.MapEntries),
    3 -> name.map(Action.ListAdd),
    2 -> Gen.const(Action.ListRead),
    1 -> name.map(Action.Side),
    4 -> time.map(Action.EventTimer),
    4 -> time.map(Action.ProcessingTimer),
    2 -> time.map(Action.DeleteEventTimer),
    2 -> time.map(Action.DeleteProcessingTimer)
  )

  private val row = for {
    key <- Gen.choose(0L, 4L)
    count <- Gen.choose(1, 5)
    actions <- Gen.listOfN(count, action)
  } yield Row(key, actions)

  private val step: Gen[Step] = Gen.frequency(
    12 -> Gen.zip(row, time).map(Step.Element.tupled),
    3 -> Gen.choose(1L, 12L).map(Step.Watermark),
    3 -> Gen.choose(1L, 12L).map(Step.Clock),
    1 -> Gen.const(Step.Restart)
  )

  val steps: Gen[List[Step]] = Gen.choose(1, 60).flatMap(Gen.listOfN(_, step))

  /** Those that never look at a list. */
  val stepsWithoutListReads: Gen[List[Step]] = steps.map(_.map {
    case Step.Element(row, timestamp) =>
      Step.Element(row.copy(actions = row.actions.filter(_ != Action.ListRead)), timestamp)
    case other => other
  })
}
