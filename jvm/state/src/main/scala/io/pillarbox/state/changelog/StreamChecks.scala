package io.pillarbox.state.changelog

import io.pillarbox.state.KeyedStateBackend

/** Checks that a stream belongs to a backend and comes next. */
private[state] object StreamChecks {

  /**
   * Returns the version that the state has after this stream.
   *
   * @throws StateRestoreException if its keys differ, or a log doesn't follow the version read
   *   so far
   */
  def version(
      header: StreamHeader,
      source: String,
      backend: KeyedStateBackend[_],
      nothingRead: Boolean
  ): Long = {
    if (header.key != backend.keySerializer.snapshot)
      throw StateStreamFormat.mismatch(source, "the key type", header.key, backend.keySerializer.snapshot)
    if (!header.isSnapshot && header.version != backend.version + 1)
      throw StateStreamFormat.doesNotFollow(source, header.version, backend.version)
    if (header.isSnapshot && !nothingRead) math.max(backend.version, header.version) else header.version
  }
}
