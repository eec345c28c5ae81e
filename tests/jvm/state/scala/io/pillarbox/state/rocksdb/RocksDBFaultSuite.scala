package io.pillarbox.state.rocksdb

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import io.pillarbox.api.StateTtl._
import io.pillarbox.api.{ScalaSerializers, Serializers, StateDescriptor, TimeDomain, ValueState}
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.state._
import io.pillarbox.state.rocksdb.store.{ColumnName, CompactionTtl, RocksDBConfig, RocksDBMemory}
import org.rocksdb.ColumnFamilyHandle
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.tagobjects.Slow

/** What is RocksDB's own: checkpoints of the directory, memory, compaction, and disks that fail. */
class RocksDBFaultSuite extends AnyFunSuite with RocksDBFixture {

  private val blob = TestState.value("blob", Serializers.ofBytes)

  private def fill(backend: KeyedStateBackend[Long], keys: Range, bytes: Int): Unit = {
    val state = backend.getOrCreate(blob)
    val random = new java.util.Random(5)
    for (key <- keys) {
      val content = new Array[Byte](bytes)
      random.nextBytes(content)
      backend.setCurrentKey(key.toLong)
      state.update(content)
    }
  }

  /** The checkpoint of a backend that holds `keys`. */
  private def checkpointOf(keys: Range): Path = {
    val target = newDirectory().resolve("checkpoint")
    val backend = openAt(newDirectory(), ScalaSerializers.long)
    try {
      fill(backend, keys, 1000)
      backend.commit()
      backend.checkpoint(target)
    } finally backend.close()
    target
  }

  test("a checkpoint of the directory opens as it was, commits on, and the first backend goes on too") {
    val target = newDirectory().resolve("checkpoint")
    val first = openAt(newDirectory(), Serializers.ofString)
    try {
      val (v, l) = (first.getOrCreate(value), first.getOrCreate(list))
      first.setCurrentKey("a")
      v.update("1")
      l.addAll(Seq("1", "2"))
      first.commit()
      first.checkpoint(target)
      v.update("2")
      val second = openAt(target, Serializers.ofString)
      try {
        val (v2, l2) = (second.getOrCreate(value), second.getOrCreate(list))
        second.setCurrentKey("a")
        assert(v2.value() == "1" && l2.get().toSeq == Seq("1", "2"))
        l2.add("3")
        assert(l2.get().toSeq == Seq("1", "2", "3"))
        assert(second.version == 1 && second.commit().entries == 1)
      } finally second.close()
      assert(v.value() == "2")
    } finally first.close()
  }

  test("changes that were spilled are not taken for changes after a checkpoint was opened") {
    val target = newDirectory().resolve("checkpoint")
    val first = openAt(newDirectory(), ScalaSerializers.long)
    try {
      fill(first, 0 until 5000, 1000)
      first.checkpoint(target)
    } finally first.close()
    val second = openAt(target, ScalaSerializers.long)
    try {
      second.getOrCreate(blob)
      assert(second.commit().isEmpty && second.numEntries("blob") == 5000)
    } finally second.close()
  }

  test("a directory that a crash left behind is refused") {
    val directory = newDirectory()
    val backend = openAt(directory, ScalaSerializers.long)
    fill(backend, 0 until 10, 10)
    backend.close()
    val error = intercept[StateRestoreException](openAt(directory, ScalaSerializers.long))
    assert(error.condition == "STATE_DIRECTORY_UNCLEAN" && error.getMessage.contains(directory.toString))
  }

  test("a database of another format is refused as such") {
    for (format <- Seq(9, 4, 1)) {
      val checkpoint = checkpointOf(0 until 3)
      val header = checkpoint.resolve("pillarbox-header")
      Files.write(header, Files.readAllBytes(header).updated(7, format.toByte))
      val error = intercept[StateRestoreException](openAt(checkpoint, ScalaSerializers.long))
      assert(error.condition == "STATE_FORMAT_UNKNOWN" && error.getMessage.contains(checkpoint.toString))
      assert(error.getMessage.contains(s"format version $format, this Pillarbox reads 5"))
    }
  }

  test("a checkpoint whose header is damaged, cut off or missing is refused") {
    val checkpoint = checkpointOf(0 until 3)
    val header = checkpoint.resolve("pillarbox-header")
    val sound = Files.readAllBytes(header)
    val damaged = (sound.indices by 9)
      .filter(at => at < 4 || at >= 8)
      .map(at => sound.updated(at, (sound(at) ^ 1).toByte))
    for (content <- damaged ++ Seq(sound.take(3), sound.dropRight(1))) {
      Files.write(header, content)
      val error = intercept[StateRestoreException](openAt(checkpoint, ScalaSerializers.long))
      assert(error.condition == "STATE_FILE_CORRUPT" && error.getMessage.contains(header.toString))
    }
    Files.delete(header)
    val error = intercept[StateRestoreException](openAt(checkpoint, ScalaSerializers.long))
    assert(error.condition == "STATE_DIRECTORY_UNCLEAN")
  }

  test("a damaged SST file is an error that names it, never a wrong value") {
    val checkpoint = checkpointOf(0 until 3000)
    val files = Files.list(checkpoint)
    val table =
      try files.iterator.asScala.filter(_.toString.endsWith(".sst")).maxBy(Files.size)
      finally files.close()
    val bytes = Files.readAllBytes(table)
    for (i <- bytes.length / 4 until bytes.length / 2) bytes(i) = (bytes(i) ^ 0x55).toByte
    Files.delete(table)
    Files.write(table, bytes)
    val error = intercept[StateBackendException] {
      val backend = openAt(checkpoint, ScalaSerializers.long)
      try {
        val state = backend.getOrCreate(blob)
        for (key <- 0L until 3000L) {
          backend.setCurrentKey(key)
          assert(state.value() != null)
        }
      } finally backend.close()
    }
    assert(error.condition == "STATE_FILE_CORRUPT" && error.getMessage.contains(table.getFileName.toString))
  }

  test("a directory that is gone is an error that names it") {
    val directory = newDirectory()
    val backend = openAt(directory, ScalaSerializers.long)
    try {
      fill(backend, 0 until 10, 10)
      val files = Files.list(directory)
      try files.iterator.asScala.toSeq.foreach(Files.delete(_))
      finally files.close()
      Files.delete(directory)
      val error = intercept[StateBackendException](backend.checkpoint(newDirectory().resolve("checkpoint")))
      assert(error.getMessage.contains(directory.toString))
    } finally {
      backend.close()
      Files.createDirectories(directory)
    }
  }

  test("a full disk is an error, not a loss: the next commit isn't reached") {
    val directory = newDirectory()
    val config =
      RocksDBConfig(directory, memoryLimit = 32L << 20, cacheBytes = 64 << 10, diskLimit = 1L << 20)
    val backend =
      new RocksDBKeyedStateBackend(ScalaSerializers.long, new ManualClock, config)
    try {
      val error = intercept[StateBackendException] {
        for (round <- 0 until 100) {
          fill(backend, round * 1000 until (round + 1) * 1000, 1000)
          backend.store.flush()
        }
      }
      assert(error.getMessage.contains(directory.toString))
    } finally backend.close()
  }

  test("a directory that can't be made is an error") {
    val file = newDirectory().resolve("file")
    Files.write(file, Array[Byte](1))
    assertThrows[Exception](openAt(file.resolve("db"), ScalaSerializers.long))
    val after = RocksDBMemory.acquire(32L << 20)
    try assert(after.usage >= 0)
    finally after.close()
  }

  test("memory is shared by all databases, bounded, and freed with the last") {
    val backends = Seq.fill(3)(openAt(newDirectory(), ScalaSerializers.long))
    val memory = RocksDBMemory.acquire(1L << 30)
    try {
      assert(memory.limit == (32L << 20), "the first one's limit counts")
      backends.foreach(fill(_, 0 until 20000, 500))
      assert(memory.usage > 0 && memory.usage < 2 * memory.limit)
      backends.foreach(b => assert(b.metrics.fileBytes + b.metrics.memoryBytes > 0 && b.metrics.entries > 0))
    } finally {
      backends.foreach(_.close())
      memory.close()
    }
    backends.foreach(b => assert(b.metrics.fileBytes == 0))
    val fresh = RocksDBMemory.acquire(64L << 20)
    try assert(fresh.limit == (64L << 20))
    finally fresh.close()
  }

  /** A hundred values of a second, or of another time to live. */
  private final class Ageing(clockBehind: Long = 0L, compactionMargin: Long = 0L, ttlMs: Long = 1000L)
      extends AutoCloseable {
    private val descriptor = Ageing.named("value", ttlMs)
    private val directory = newDirectory()
    private val copy = directory.resolve("copy")
    private val clock = new ManualClock(System.currentTimeMillis)
    var backend: RocksDBKeyedStateBackend[Long] = open(directory.resolve("first"), 0L)
    fill(backend.getOrCreate(descriptor))
    backend.commit()
    backend.checkpoint(copy)
    backend.close()
    backend = open(copy, clockBehind)
    private val state = backend.getOrCreate(descriptor)

    private def open(at: Path, behind: Long): RocksDBKeyedStateBackend[Long] = new RocksDBKeyedStateBackend(
      ScalaSerializers.long,
      clock,
      RocksDBConfig(at, 32L << 20, compactionMargin = compactionMargin, clockBehind = behind)
    )

    private def fill(state: ValueState[String]): Unit = for (key <- 0L until 100L) {
      backend.setCurrentKey(key)
      state.update("1")
    }

    /** As the state's clock has not moved, all are alive. */
    def found(): Int = (0L until 100L).count { key =>
      backend.setCurrentKey(key)
      state.value() != null
    }

    def family: ColumnFamilyHandle =
      backend.store.columnFamilies.filter(found => ColumnName.parse(found.getName).nonEmpty).maxBy(_.getID)

    def compacted(): Long = {
      backend.numEntries("value"): Unit
      backend.store.flush()
      backend.store.compact(family)
      backend.numEntries("value")
    }

    override def close(): Unit = backend.close()
  }

  private object Ageing {
    def named(name: String, ttlMs: Long = 1000L): StateDescriptor[ValueState[String]] =
      TestState.value(name, Serializers.ofString, Some(TestState.ttl(ttlMs)))
  }

  private def eventually(condition: => Boolean): Unit = {
    val deadline = System.nanoTime() + 30L * 1000 * 1000 * 1000
    while (!condition && System.nanoTime() < deadline) Thread.onSpinWait()
    assert(condition)
  }

  test("compaction drops what is older than its TTL and margin, and nothing younger", Slow) {
    assert(CompactionTtl.seconds(Ageing.named("value"), 5000L) == 7)
    val (young, old) = (new Ageing(ttlMs = 3600L * 1000), new Ageing)
    try {
      eventually(old.compacted() == 0)
      assert(young.compacted() == 100)
    } finally {
      young.close()
      old.close()
    }
  }

  test("compaction in a batch of an earlier time drops nothing that was alive then", Slow) {
    val (now, earlier) = (new Ageing, new Ageing(clockBehind = 3600L * 1000))
    try {
      eventually(now.compacted() == 0)
      assert(earlier.compacted() == 100)
      assert(earlier.found() == 100)
    } finally {
      now.close()
      earlier.close()
    }
  }

  test("a batch that lasts for as long as the margin stops compaction, the next one lets it run again") {
    val ageing = new Ageing(compactionMargin = 500L)
    def runs = ageing.backend.store.compacts(ageing.family)
    try {
      assert(runs)
      ageing.backend.timeIs(System.currentTimeMillis + 3600L * 1000)
      assert(runs)
      ageing.backend.timeIs(System.currentTimeMillis)
      eventually(!runs)
      ageing.backend.timeIs(System.currentTimeMillis + 3600L * 1000)
      assert(runs)
      ageing.backend.timeIs(System.currentTimeMillis - 3600L * 1000)
      assert(!runs, "it began too long ago")
      val late = ageing.backend.getOrCreate(Ageing.named("late"))
      assert(!runs, "so for a state that is new then")
      ageing.backend.setCurrentKey(1L)
      assert(late.value() == null)
    } finally ageing.close()
  }

  test("compaction isn't used where its clock or its timestamps would be wrong") {
    assert(
      CompactionTtl.seconds(
        value.living(Some(TestState.ttl(1000L, timeDomain = TimeDomain.EVENT_TIME))),
        0L
      ) == 0
    )
    assert(
      CompactionTtl.seconds(list.living(Some(TestState.ttl(1000L, Update.ON_READ_AND_WRITE))), 0L) == 0
    )
    assert(CompactionTtl.seconds(value, 0L) == 0)
    assert(CompactionTtl.seconds(value.living(Some(TestState.ttl(Long.MaxValue))), 0L) == 0)
  }

  test("a longer ttl set at a restart isn't cut short by the compaction of the shorter one (FLINK ✗)") {
    val short = value.living(Some(TestState.ttl(1000L)))
    val long = value.living(Some(TestState.ttl(3600L * 1000 * 1000)))
    val target = newDirectory().resolve("checkpoint")
    def open(directory: Path) = new RocksDBKeyedStateBackend(
      ScalaSerializers.long,
      new ManualClock,
      RocksDBConfig(directory, memoryLimit = 32L << 20, compactionMargin = 0L)
    )
    val first = open(newDirectory())
    try {
      val state = first.getOrCreate(short)
      first.setCurrentKey(1L)
      state.update("1")
      first.commit()
      first.checkpoint(target)
    } finally first.close()
    val second = open(target)
    try {
      val state = second.getOrCreate(long)
      val name =
        second.store.columnFamilies.flatMap(family => ColumnName.parse(family.getName)).map(_.ttlSeconds)
      assert(name == Seq(3600001), "the entries moved to a column family that keeps them longer")
      second.setCurrentKey(1L)
      assert(state.value() == "1")
    } finally second.close()
  }

  test("a small change of ttl doesn't rewrite the state") {
    assert(CompactionTtl.fits(found = 100, wanted = 50) && CompactionTtl.fits(100, 100))
    assert(!CompactionTtl.fits(found = 100, wanted = 101) && !CompactionTtl.fits(100, 10))
    assert(CompactionTtl.fits(0, 0) && !CompactionTtl.fits(100, 0))
  }
}
