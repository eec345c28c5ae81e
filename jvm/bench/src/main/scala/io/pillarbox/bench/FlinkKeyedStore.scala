package io.pillarbox.bench

import java.nio.file.Files
import java.time.Duration
import java.util.Collections

import org.apache.flink.api.common.JobID
import org.apache.flink.api.common.state._
import org.apache.flink.api.common.typeutils.base.LongSerializer
import org.apache.flink.configuration.MemorySize
import org.apache.flink.core.fs.CloseableRegistry
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup
import org.apache.flink.runtime.checkpoint.CheckpointOptions
import org.apache.flink.runtime.operators.testutils.MockEnvironmentBuilder
import org.apache.flink.runtime.query.KvStateRegistry
import org.apache.flink.runtime.state._
import org.apache.flink.runtime.state.hashmap.HashMapStateBackend
import org.apache.flink.runtime.state.memory.MemCheckpointStreamFactory
import org.apache.flink.runtime.state.ttl.TtlTimeProvider
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend

/** Flink's own backends. With RocksDB it must come from [[FlinkRocksDBLoader]]. */
final class FlinkKeyedStore(kind: String, ttl: String) extends KeyedStore {
  private val directory = Files.createTempDirectory("flink-bench")
  private val clock: TtlTimeProvider = TtlTimeProvider.DEFAULT
  private val environment = new MockEnvironmentBuilder().build()
  private val backend: CheckpointableKeyedStateBackend[java.lang.Long] = open()
  private val long = LongSerializer.INSTANCE
  private val handle = bind[ValueState[java.lang.Long]](new ValueStateDescriptor("value", long))
  private val map =
    bind[MapState[java.lang.Long, java.lang.Long]](new MapStateDescriptor("map", long, long))
  private val list = bind[ListState[java.lang.Long]](new ListStateDescriptor("list", long))
  private var checkpoints = 0L

  private def open(): CheckpointableKeyedStateBackend[java.lang.Long] = {
    val parameters = new KeyedStateBackendParametersImpl[java.lang.Long](
      environment,
      new JobID(),
      "operator",
      LongSerializer.INSTANCE,
      KeyedStore.KeyGroups,
      KeyGroupRange.of(0, KeyedStore.KeyGroups - 1),
      new KvStateRegistry()
        .createTaskRegistry(new JobID(), new org.apache.flink.runtime.jobgraph.JobVertexID()),
      clock,
      new UnregisteredMetricsGroup(),
      Collections.emptyList[KeyedStateHandle](),
      new CloseableRegistry()
    )
    if (kind == "heap") new HashMapStateBackend().createKeyedStateBackend(parameters)
    else {
      val rocksdb = new EmbeddedRocksDBStateBackend()
      rocksdb.setDbStoragePath(directory.toString)
      // As much in all as we take, our cache on the heap included.
      rocksdb.getMemoryConfiguration.setFixedMemoryPerSlot(
        new MemorySize(KeyedStore.RocksDBBytes + KeyedStore.WriteBackBytes)
      )
      rocksdb
        .createKeyedStateBackend(parameters)
        .asInstanceOf[CheckpointableKeyedStateBackend[java.lang.Long]]
    }
  }

  private def bind[S <: State](descriptor: StateDescriptor[S, _]): S = {
    if (ttl != "off") {
      val config = StateTtlConfig.newBuilder(Duration.ofMillis(KeyedStore.TtlMillis))
      descriptor.enableTimeToLive(config.build())
    }
    backend.getPartitionedState(VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, descriptor)
  }

  override def setKey(key: java.lang.Long): Unit = backend.setCurrentKey(key)
  override def value(): java.lang.Long = handle.value()
  override def update(value: java.lang.Long): Unit = handle.update(value)
  override def mapGet(key: java.lang.Long): java.lang.Long = map.get(key)
  override def mapPut(key: java.lang.Long, value: java.lang.Long): Unit = map.put(key, value)
  override def listAdd(value: java.lang.Long): Unit = list.add(value)
  override def listClear(): Unit = list.clear()
  override def listSum(): Long = {
    var sum = 0L
    val elements = list.get().iterator()
    while (elements.hasNext) sum += elements.next()
    sum
  }
  override def snapshot(): Long = {
    checkpoints += 1
    val future = backend.snapshot(
      checkpoints,
      checkpoints,
      new MemCheckpointStreamFactory(512 << 20),
      CheckpointOptions.forCheckpointWithDefaultLocation()
    )
    future.run()
    future.get().getJobManagerOwnedSnapshot.getStateSize
  }
  override def checkpoint(): Long = snapshot()
  override def commit(): Long = snapshot()
  override def endBatch(): Unit = ()
  override def close(): Unit = {
    backend.dispose()
    environment.close()
    KeyedStore.deleteAll(directory)
  }
}
