package io.pillarbox.state.rocksdb.entries

import io.pillarbox.api.InputView

/** Takes a composite key apart. Reusable; the views are on the bytes given last. */
private[rocksdb] final class KeyParts {
  private val whole = new InputView

  /** The serialised key, exactly. */
  val key = new InputView

  /** The number of bytes of key group, key and namespace. */
  var prefixLength = 0
  var userKeyLength = 0

  def open(bytes: Array[Byte]): this.type = open(bytes, 0, bytes.length)

  def open(bytes: Array[Byte], offset: Int, keyLength: Int): this.type = {
    whole.wrap(bytes, offset, keyLength)
    whole.skip(2)
    val length = whole.readVarInt()
    key.wrap(bytes, whole.position, length)
    whole.skip(length)
    whole.skip(whole.readVarInt())
    prefixLength = whole.position - offset
    userKeyLength = whole.remaining
    this
  }
}
