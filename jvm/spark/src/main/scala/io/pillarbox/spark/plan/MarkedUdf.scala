package io.pillarbox.spark.plan

import java.nio.ByteBuffer
import java.nio.ByteOrder.LITTLE_ENDIAN
import java.nio.charset.StandardCharsets.UTF_8

import io.pillarbox.spark.async.AsyncIOSpec
import io.pillarbox.spark.base.{Build, SpecJson}
import io.pillarbox.spark.checkpoint.OperatorNote
import org.apache.spark.sql.catalyst.expressions.PythonUDF

/**
 * A `PythonUDF` that is a `pb.async_udf`. Its pickle has a mark near the front: a text with the operator's
 * spec, as `python/src/pillarbox/_driver/marked.py` writes it. On the driver.
 */
private[plan] object MarkedUdf {

  private val Mark = "pillarbox.async_udf:"
  private val MarkBytes = Mark.getBytes(UTF_8)

  /** The bytes of a pickle in which a mark begins, at most. */
  private val Reach = 256

  /** The opcode of a text in a pickle with its length in four bytes. A spec has more than 255 characters. */
  private val BinUnicode = 'X'.toByte

  /** True if the UDF is marked, or one that is nested in it is. */
  def isIn(udf: PythonUDF): Boolean = udf.exists {
    case inner: PythonUDF => start(inner).isDefined
    case _ => false
  }

  /**
   * Returns the spec of a marked UDF.
   *
   * @throws IllegalStateException
   *   (ASYNC_UDF_VERSION) if the Python package of another version has written it
   */
  def unapply(udf: PythonUDF): Option[AsyncIOSpec] = start(udf).map { at =>
    val command = ByteBuffer.wrap(udf.func.command.toArray).order(LITTLE_ENDIAN)
    val text = new Array[Byte](command.getInt(at - 4))
    command.get(at, text)
    val json = new String(text, UTF_8).substring(Mark.length)
    val version = SpecJson.read[Writer](json).version
    if (version != Build.version)
      throw OperatorNote.refused(
        "ASYNC_UDF_VERSION",
        s"async_udf(${udf.name})",
        "jar" -> Build.version,
        "package" -> version
      )
    AsyncIOSpec.fromJson(json)
  }

  /** The place of the mark's text in the pickle. */
  private def start(udf: PythonUDF): Option[Int] = {
    val command = udf.func.command
    val at = command.take(Reach + MarkBytes.length).indexOfSlice(MarkBytes)
    Option.when(at >= 5 && command(at - 5) == BinUnicode)(at)
  }

  private final case class Writer(version: String)
}
