package io.pillarbox.bench

import io.pillarbox.state.rocksdb.RocksDBKeyedStateBackend
import io.pillarbox.state.rocksdb.store.RocksDBConfig
import io.pillarbox.api.{ScalaSerializers, Serializers, State, StateDescriptor, StateTtl}
import java.nio.file.{Files, Path}

import io.pillarbox.operator.EventClock
import io.pillarbox.state._
import io.pillarbox.state.heap.HeapKeyedStateBackend

/**
 * The keyed state that the benchmarks use, from Flink or from us: one value, one map and one list of longs.
 */
trait KeyedStore extends AutoCloseable {
  def setKey(key: java.lang.Long): Unit
  def value(): java.lang.Long
  def update(value: java.lang.Long): Unit
  def mapGet(key: java.lang.Long): java.lang.Long
  def mapPut(key: java.lang.Long, value: java.lang.Long): Unit
  def listAdd(value: java.lang.Long): Unit
  def listClear(): Unit

  /** The sum of the list's elements. */
  def listSum(): Long

  /** A full snapshot into memory; its size in bytes. */
  def snapshot(): Long

  /**
   * A checkpoint as the backend keeps it, all of it copied into memory; in RocksDB its files, unread; its
   * size in bytes.
   */
  def checkpoint(): Long

  /** A commit into memory; its size in bytes. */
  def commit(): Long

  /** Ends a micro-batch, if there is such a thing. */
  def endBatch(): Unit
}

object KeyedStore {

  /**
   * @param system flink or pillarbox
   * @param backend heap or rocksdb
   * @param ttl off or on
   */
  def open(system: String, backend: String, ttl: String): KeyedStore =
    if (system != "flink") new PillarboxKeyedStore(backend, ttl)
    else if (backend == "heap") new FlinkKeyedStore(backend, ttl)
    else FlinkRocksDBLoader.newKeyedStore(ttl)

  final val KeyGroups = 128
  final val TtlMillis = 3600L * 1000

  /**
   * What RocksDB may take for blocks and write buffers in ours, and our write-back cache on the heap: as an
   * executor with this heap of 3 GiB divides it (256 MiB and a tenth of the heap), of as much in all as
   * Flink's RocksDB has.
   */
  final val RocksDBBytes = 120L << 20
  final val WriteBackBytes = 144 << 20

  /** Copies all files into memory; their bytes. */
  def upload(directory: Path): Long = {
    val paths = Files.walk(directory)
    try
      paths.filter(Files.isRegularFile(_)).mapToLong { path =>
        val out = new java.io.ByteArrayOutputStream(1 << 20)
        Files.copy(path, out)
        out.size.toLong
      }.sum
    finally paths.close()
  }

  def deleteAll(directory: Path): Unit = {
    val paths = Files.walk(directory)
    try paths.sorted(java.util.Comparator.reverseOrder[Path]).forEach(path => Files.delete(path))
    finally paths.close()
  }
}

private final class PillarboxKeyedStore(kind: String, ttl: String) extends KeyedStore {
  private val directory = Files.createTempDirectory("pillarbox-bench")

  /** As on Spark: a field, which is set once a micro-batch. */
  private val clock = new EventClock
  startBatch()
  private val backend: KeyedStateBackend[Long] =
    if (kind == "heap") new HeapKeyedStateBackend(ScalaSerializers.long, clock)
    else
      new RocksDBKeyedStateBackend(
        ScalaSerializers.long,
        clock,
        RocksDBConfig(directory, KeyedStore.RocksDBBytes, KeyedStore.WriteBackBytes)
      )
  private val handle = backend.getOrCreate(living(StateDescriptor.value("value", Serializers.ofLong)))
  private val map =
    backend.getOrCreate(living(StateDescriptor.map("map", Serializers.ofLong, Serializers.ofLong)))
  private val list = backend.getOrCreate(living(StateDescriptor.list("list", Serializers.ofLong)))
  private val keyed = backend.asInstanceOf[KeyedStateBackend[java.lang.Long]]

  private def living[S <: State](descriptor: StateDescriptor[S]): StateDescriptor[S] =
    if (ttl == "off") descriptor else descriptor.withTtl(StateTtl.ofMillis(KeyedStore.TtlMillis))

  override def setKey(key: java.lang.Long): Unit = keyed.setCurrentKey(key)
  override def value(): java.lang.Long = handle.value()
  override def update(value: java.lang.Long): Unit = handle.update(value)
  override def mapGet(key: java.lang.Long): java.lang.Long = map.get(key)
  override def mapPut(key: java.lang.Long, value: java.lang.Long): Unit = map.put(key, value)
  override def listAdd(value: java.lang.Long): Unit = list.add(value)
  override def listClear(): Unit = list.clear()
  override def listSum(): Long = {
    var sum = 0L
    val elements = list.get().iterator
    while (elements.hasNext) sum += elements.next()
    sum
  }
  override def snapshot(): Long = backend.snapshot(new java.io.ByteArrayOutputStream(1 << 20)).bytes
  override def checkpoint(): Long = backend match {
    case rocksdb: RocksDBKeyedStateBackend[_] =>
      val target = directory.resolveSibling(s"${directory.getFileName}-checkpoint")
      rocksdb.checkpoint(target)
      val size = KeyedStore.upload(target)
      KeyedStore.deleteAll(target)
      size
    case _ => snapshot()
  }
  override def commit(): Long = backend.commit(new java.io.ByteArrayOutputStream(1 << 16)).bytes
  override def endBatch(): Unit = {
    backend.commit(java.io.OutputStream.nullOutputStream()): Unit
    startBatch()
  }
  override def close(): Unit = {
    backend.close()
    KeyedStore.deleteAll(directory)
  }

  private def startBatch(): Unit = clock.processingTime = System.currentTimeMillis()
}
