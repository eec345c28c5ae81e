package io.pillarbox.state

import java.util

/**
 * Divides the state of one key, for instance by window. Immutable; equal by its bytes.
 *
 * The bytes are written to disk as they are, so their maker keeps them stable.
 */
private[pillarbox] final class Namespace private (private[state] val bytes: Array[Byte]) {

  override val hashCode: Int = util.Arrays.hashCode(bytes)

  def isVoid: Boolean = bytes.length == 0

  def toBytes: Array[Byte] = bytes.clone()

  override def equals(other: Any): Boolean = other match {
    case that: Namespace => (this eq that) || util.Arrays.equals(bytes, that.bytes)
    case _ => false
  }

  override def toString: String = if (isVoid) "void" else bytes.map(b => f"$b%02x").mkString
}

private[pillarbox] object Namespace {

  /** The only namespace of state that isn't divided. */
  val Void: Namespace = new Namespace(Array.emptyByteArray)

  /** Returns the namespace of these bytes, which are copied. */
  def of(bytes: Array[Byte]): Namespace =
    if (bytes.length == 0) Void else new Namespace(bytes.clone())
}
