package io.pillarbox.state.operator

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}

import io.pillarbox.api.{ScalaSerializers, Serializers}
import io.pillarbox.state._
import io.pillarbox.state.heap.HeapKeyedStateBackend
import org.scalatest.funsuite.AnyFunSuite

class OperatorStateBackendSuite extends AnyFunSuite {

  private def snapshotOf(backend: OperatorStateBackend): Array[Byte] = {
    val out = new ByteArrayOutputStream
    backend.snapshot(out)
    out.toByteArray
  }

  private def restored(snapshots: Array[Byte]*): OperatorStateBackend = {
    val backend = new OperatorStateBackend
    snapshots.foreach(bytes => backend.restore(new ByteArrayInputStream(bytes), "operator.snapshot"))
    backend
  }

  test("lists are snapshot and restored in order, those of several partitions one after the other") {
    val snapshots = Seq(Seq("1", "2"), Seq("3")).map { texts =>
      val backend = new OperatorStateBackend
      backend.getListState("in flight", Serializers.ofString).addAll(texts)
      snapshotOf(backend)
    }
    assert(
      restored(snapshots: _*).getListState("in flight", Serializers.ofString).get().toSeq == Seq(
        "1",
        "2",
        "3"
      )
    )
  }

  test("a list is replaced and cleared, and an iterator doesn't see it") {
    val state = new OperatorStateBackend().getListState("l", ScalaSerializers.long)
    state.addAll(Seq(1L, 2L))
    val before = state.get()
    state.update(Seq(9L))
    assert(before.toSeq == Seq(1L, 2L) && state.get().toSeq == Seq(9L))
    state.clear()
    assert(state.get().isEmpty)
  }

  test("a list that a run doesn't ask for is in its snapshots") {
    val first = new OperatorStateBackend
    first.getListState("a", Serializers.ofString).add("1")
    first.getListState("b", ScalaSerializers.int).addAll(Seq(2, 3))
    val second = restored(snapshotOf(first))
    second.getListState("a", Serializers.ofString).add("4")
    val third = restored(snapshotOf(second))
    assert(third.getListState("a", Serializers.ofString).get().toSeq == Seq("1", "4"))
    assert(third.getListState("b", ScalaSerializers.long).get().toSeq == Seq(2L, 3L), "and may be widened")
  }

  test("another type under a name, null, and keyed state in its place are refused") {
    val backend = new OperatorStateBackend
    val state = backend.getListState("a", Serializers.ofString)
    assertThrows[StateRegistrationException](backend.getListState("a", ScalaSerializers.long))
    assertThrows[IllegalArgumentException](state.add(null))
    assertThrows[IllegalArgumentException](state.update(Seq("1", null)))
    state.add("1")
    assertThrows[StateRegistrationException](
      restored(snapshotOf(backend)).getListState("a", ScalaSerializers.boolean)
    )
    assertThrows[IllegalStateException](backend.restore(new ByteArrayInputStream(snapshotOf(backend)), "x"))
    val keyed = new HeapKeyedStateBackend(ScalaSerializers.long, 128, KeyGroupRange(0, 127), new ManualClock)
    val out = new ByteArrayOutputStream
    keyed.snapshot(out)
    val error = intercept[StateRestoreException](restored(out.toByteArray))
    assert(error.condition == "STATE_FILE_MISMATCH")
  }
}
