package io.pillarbox.state.rocksdb.cache

private[rocksdb] object IdleBuffer {

  /** A reused buffer that grew over so many bytes is given back to the collector after its use. */
  final val MaxBytes: Int = 1 << 20
}
