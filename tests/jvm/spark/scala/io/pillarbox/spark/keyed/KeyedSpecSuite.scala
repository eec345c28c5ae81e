package io.pillarbox.spark.keyed

import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.state.StorageKind
import org.scalatest.funsuite.AnyFunSuite

class KeyedSpecSuite extends AnyFunSuite {

  test("explain shows the backend as the option has it, and timers where they are kept elsewhere") {
    val fields = """{"name": "f", "form": "row", "by": ["k"], "backend": "heap", "timers": "heap"}"""
    val spec = KeyedSpec.fromJson(SpecBuilder.keyed(fields))
    assert(spec.summary.mkString(", ") == "f, form=row, some.Class, by=[k], backend=heap")
    assert(spec.copy(timers = Some(StorageKind.Heap)).summary.contains("backend=heap"))
    assert(spec.copy(timers = Some(StorageKind.RocksDB)).summary.contains("backend=heap timers=rocksdb"))
  }
}
