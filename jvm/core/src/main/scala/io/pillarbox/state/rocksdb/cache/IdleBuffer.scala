package io.pillarbox.state.rocksdb.cache

private[rocksdb] object IdleBuffer {

  /** The size in bytes over which a reused buffer is given back to the collector after its use. */
  final val MaxBytes: Int = 1 << 20
}
