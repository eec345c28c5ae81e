package io.pillarbox.state

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}

import io.pillarbox.api.TestSerializers
import io.pillarbox.api.{
  AggregateFunction,
  AggregatingState,
  ListState,
  MapState,
  ReducingState,
  ScalaSerializers,
  Serializers,
  StateDescriptor,
  TypeSerializer,
  ValueState
}
import io.pillarbox.state.changelog.StateEntries

/** Opens backends of one kind for a contract suite, and the few descriptors that the suites use. */
trait StateFixture {

  def openBackend[K](
      keys: TypeSerializer[K],
      clock: StateClock,
      sweeps: Boolean = true
  ): KeyedStateBackend[K]

  def withBackend[A](clock: StateClock = new ManualClock, sweeps: Boolean = true)(
      test: KeyedStateBackend[String] => A
  ): A = {
    val backend = openBackend(Serializers.ofString, clock, sweeps = sweeps)
    try test(backend)
    finally backend.close()
  }

  val value: StateDescriptor[ValueState[String]] = TestState.value("value", Serializers.ofString)
  val list: StateDescriptor[ListState[String]] = TestState.list("list", Serializers.ofString)
  val map: StateDescriptor[MapState[String, Long]] =
    TestState.map("map", Serializers.ofString, ScalaSerializers.long)
  val sum: StateDescriptor[ReducingState[Long]] =
    TestState.reducing[Long]("sum", _ + _, ScalaSerializers.long)
  val mean: StateDescriptor[AggregatingState[Long, Double]] = TestState.aggregating(
    "mean",
    StateFixture.Mean,
    TestSerializers.tuple2(ScalaSerializers.long, ScalaSerializers.long)
  )

  def snapshotOf(backend: KeyedStateBackend[_]): Array[Byte] = {
    val out = new ByteArrayOutputStream
    backend.snapshot(out)
    out.toByteArray
  }

  /** The number of entries of a state in a snapshot: values, elements of lists, entries of maps. */
  def entriesOf(snapshot: Array[Byte], state: String): Long =
    StateEntries.of(new ByteArrayInputStream(snapshot), "a snapshot", state).size.toLong

  implicit final class MeasuredBackend(backend: KeyedStateBackend[_]) {
    def numEntries(state: String): Long = entriesOf(snapshotOf(backend), state)

    def commit(): ChangeLog = {
      val out = new ByteArrayOutputStream
      ChangeLog(backend.commit(out), out)
    }
  }

  def restored[K](backend: KeyedStateBackend[K], streams: Array[Byte]*): KeyedStateBackend[K] = {
    streams.zipWithIndex.foreach { case (bytes, i) =>
      backend.restore(new ByteArrayInputStream(bytes), s"stream-$i")
    }
    backend
  }

  def bytesOf(log: ChangeLog): Array[Byte] = log.bytes
}

/** A commit in memory: exactly the entries that changed since the one before. */
final case class ChangeLog(summary: CommitSummary, out: ByteArrayOutputStream) {
  def isEmpty: Boolean = entries == 0
  def entries: Long = summary.entries
  def bytes: Array[Byte] = out.toByteArray
}

object StateFixture {
  object Mean extends AggregateFunction[Long, (Long, Long), Double] {
    override def createAccumulator(): (Long, Long) = (0L, 0L)
    override def add(value: Long, acc: (Long, Long)): (Long, Long) = (acc._1 + value, acc._2 + 1)
    override def getResult(acc: (Long, Long)): Double = acc._1.toDouble / acc._2
  }
}
