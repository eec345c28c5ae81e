package io.pillarbox.state.changelog

import io.pillarbox.state.{StateException, StateRestoreException}

/**
 * The bytes of a snapshot or log, version 3. All numbers are big-endian.
 *
 * {{{
 * stream  = "PILLARBX" version:int block(header) block(records)* block(end)
 * block   = length:int crc32c:int content        the checksum is over length and content
 * content = 0 header | 1 records | 2 entries:long blocks:int
 * records = state:varint count:varint record*
 * record  = put:byte (1, or 0: removed) sized(key) [sized(value) if put]
 * key     = sized(key) sized(namespace) user-key
 * value   = [timestamp:long, if the state has TTL] value
 * sized   = length:varint bytes
 * }}}
 *
 * The user key is empty for values and aggregates, the key of a map entry, the number (long) of a list's
 * element. A list's record without user key is its access time and a number (longs): all elements below the
 * number were read then, which under ON_READ_AND_WRITE renewed them.
 */
private[pillarbox] object StateStreamFormat {
  val Magic: Array[Byte] = "PILLARBX".getBytes("US-ASCII")
  final val Version = 3
  final val Header = 0
  final val Records = 1
  final val End = 2

  /** Records are gathered to blocks of at least this size, in bytes. */
  final val BlockSize: Int = 64 << 10

  def corrupt(source: String, what: String, cause: Throwable = null): StateException =
    new StateRestoreException(
      "STATE_FILE_CORRUPT",
      s"$source is damaged: $what. Restore from another snapshot; this one can't be trusted",
      cause
    )

  def doesNotFollow(source: String, found: Long, at: Long): StateException = new StateRestoreException(
    "STATE_LOG_OUT_OF_ORDER",
    s"$source leads to version $found, but the state read so far is of version $at: logs must be read in " +
      "order, none left out"
  )

  def mismatch(source: String, what: String, found: Any, wanted: Any): StateException =
    new StateRestoreException(
      "STATE_FILE_MISMATCH",
      s"$source was written with $what $found, this backend has $wanted: open the backend as it was when " +
        "the state began"
    )
}
