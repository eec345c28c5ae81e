package io.pillarbox.metered.journal

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

/**
 * The operator whose answers a journal holds. Its id is the hash of its description, so any two writers agree
 * on it, and an operator only finds the answers to an operator of the very same description.
 *
 * @param description a JSON object with all that a reader of its answers must know
 */
private[pillarbox] final class JournalOperator(description: String) {
  private[journal] val json: Array[Byte] = description.getBytes(UTF_8)
  private val hash = ByteBuffer.wrap(MessageDigest.getInstance("SHA-256").digest(json))

  val high: Long = hash.getLong(0)
  val low: Long = hash.getLong(8)
}
