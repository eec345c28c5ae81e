package io.pillarbox.spark.state

import java.nio.file.{Files, Paths}

import org.rocksdb.{DirectSlice, RocksDB}
import org.scalatest.funsuite.AnyFunSuite

class NativeHeapSuite extends AnyFunSuite {

  test("native memory that is free goes back to the system") {
    assume(NativeHeap.canTrim, "a JVM that trims the heap of glibc")
    RocksDB.loadLibrary()
    // Blocks for which glibc does not ask the system each time; every second one stays, so that none is on top.
    val text = "x" * (64 << 10)
    val blocks = IndexedSeq.fill(2000)(new DirectSlice(text))
    val (kept, freed) = blocks.indices.partition(_ % 2 == 0)
    freed.foreach(blocks(_).close())
    val before = residentBytes
    NativeHeap.trim()
    val returned = before - residentBytes
    kept.foreach(blocks(_).close())
    assert(returned > (40L << 20))
  }

  private def residentBytes: Long =
    Files.readString(Paths.get("/proc/self/statm")).split(' ')(1).toLong * 4096
}
